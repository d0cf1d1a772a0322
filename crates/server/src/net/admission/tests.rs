//! Connections that come, log in, are refused, or make room for others.

use super::*;

fn from(last: u8) -> Place {
    Place::Ip([10, 0, 0, last].into())
}

fn user(name: &str) -> Arc<str> {
    name.into()
}

impl Admission {
    /// A connection that gets as far as its login.
    fn stranger(self: &Arc<Self>, network: u8) -> Result<Ticket, Refused> {
        self.stranger_at(network, Instant::now())
    }

    fn stranger_at(self: &Arc<Self>, network: u8, now: Instant) -> Result<Ticket, Refused> {
        let mut ticket = self.enter(from(network), now)?;
        ticket.admit(true, now)?;
        Ok(ticket)
    }

    fn is_empty(&self) -> bool {
        let all = &*crate::lock(&self.all);
        (all.accepted, all.admitted, all.ordinary, all.strangers.len()) == (0, 0, 0, 0)
            && all.order.0.is_empty()
            && all.places.is_empty()
            && all.users.is_empty()
    }
}

#[test]
fn one_network_keeps_no_other_out() {
    let all = Admission::new(80, Some(20), 8);
    let mut inside: Vec<_> = (0..20).map(|_| all.stranger(1).expect("room")).collect();
    assert_eq!(all.stranger(1).expect_err("too many"), Refused::Place { count: 20 });
    let other = all.stranger(2).expect("another network");
    assert_eq!((inside[0].turns.available_permits(), other.turns.available_permits()), (2, 2));
    inside.pop();
    all.stranger(1).expect("one has gone");
    drop((inside, other));
    assert!(all.is_empty(), "nothing is kept of them");
    let many: Vec<_> = (0..80).map(|at| all.stranger(at).expect("room")).collect();
    assert_eq!(all.stranger(90).expect_err("too many"), Refused::Full { max: 80 });
    drop(many);
    assert!(all.is_empty());
}

#[test]
fn handshakes_beyond_the_limit_are_bounded_too() {
    let all = Admission::new(1000, None, 8);
    let admitted = |network| {
        let mut ticket = all.enter(from(network), Instant::now()).expect("room");
        ticket.admit(false, Instant::now()).expect("room");
        ticket
    };
    let inside: Vec<_> = (0..1000).map(|_| admitted(1)).collect();
    let mut beyond: Vec<_> =
        (0..BEYOND).map(|_| all.enter(from(1), Instant::now()).expect("it hears why")).collect();
    assert_eq!(beyond[0].admit(false, Instant::now()), Err(Refused::Full { max: 1000 }));
    assert_eq!(
        all.enter(from(2), Instant::now()).expect_err("too many"),
        Refused::Full { max: 1000 }
    );
    drop((inside, beyond));
    assert!(all.is_empty());
}

#[test]
fn service_f80_one_user_has_a_part_and_operators_always_have_room() {
    let all = Admission::new(400, Some(100), 8);
    let log_in = |name: &str, is_operator| {
        let mut ticket = all.stranger(1)?;
        ticket.log_in(&user(name), is_operator).map(|()| ticket)
    };
    let mut inside = Vec::new();
    for name in ["carol", "dora", "erik", "finn"] {
        let before = inside.len();
        while let Ok(ticket) = log_in(name, false) {
            inside.push(ticket);
        }
        let expected = if name == "finn" { 100 - RESERVED } else { 100 };
        assert_eq!(inside.len() - before, expected, "{name}");
    }
    let full = Refused::User { user: user("carol"), max: 100 };
    assert_eq!(log_in("carol", false).expect_err("too many"), Refused::Reserved { max: 384 });
    inside.pop();
    assert_eq!(log_in("carol", false).expect_err("too many"), full);
    inside.push(log_in("gina", false).expect("one has gone"));
    // Of one place they take half of what is left, and leave that to those who come after them.
    let came = Instant::now() - GRACE;
    let mut strangers = Vec::new();
    while let Ok(ticket) = all.stranger_at(2, came) {
        strangers.push(ticket);
    }
    assert_eq!(strangers.len(), 5);
    let operators: Vec<_> =
        (0..4).map(|_| log_in("operator", true).expect("kept for them")).collect();
    drop((inside, strangers, operators));
    assert!(all.is_empty());
}

#[test]
fn another_login_moves_the_connection_and_a_refused_stranger_takes_no_place() {
    let all = Admission::new(64, Some(1), 8);
    let mut one = all.stranger(1).expect("room");
    let mut two = all.stranger(1).expect("room");
    one.log_in(&user("ann"), false).expect("room");
    one.log_in(&user("ann"), false).expect("again");
    two.log_in(&user("bob"), true).expect("room");
    let full = Refused::User { user: user("ann"), max: 1 };
    assert_eq!(two.log_in(&user("ann"), false), Err(full), "bob stays");
    one.log_in(&user("cleo"), true).expect("room");
    two.log_in(&user("ann"), false).expect("ann has none now");
    let mut three = all.stranger(9).expect("room");
    three.log_in(&user("ann"), false).expect_err("too many");
    assert_eq!(crate::lock(&all.all).admitted, 2, "its place is free before it is gone");
    let users: Vec<_> = crate::lock(&all.all).users.values().copied().collect();
    assert_eq!((users, crate::lock(&all.all).ordinary), (vec![1, 1], 1));
    drop((one, two, three));
    assert!(all.is_empty());
}

#[test]
fn the_largest_limit_can_be_computed_with() {
    let all = Admission::new(usize::MAX, Some(usize::MAX), 8);
    drop(all.stranger(1).expect("room"));
    assert!(all.is_empty());
}

#[test]
fn a_server_with_few_connections_reserves_none() {
    let all = Admission::new(3, Some(3), 8);
    let inside: Vec<_> = (0..3).map(|_| all.stranger(1).expect("room")).collect();
    assert_eq!(all.stranger(1).expect_err("full"), Refused::Full { max: 3 });
    drop(inside);
}

#[test]
fn service_f116_a_newcomer_has_the_place_of_the_oldest_stranger_that_had_its_time() {
    let all = Admission::new(80, Some(20), 8);
    let begin = Instant::now();
    let at = |millis| begin + Duration::from_millis(millis);
    let is_closed = |ticket: &Ticket| crate::lock(&ticket.exit.state).is_closed;
    let silent: Vec<_> = (0..20).map(|n| all.stranger_at(1, at(n)).expect("room")).collect();
    // Those who come together don't close each other.
    assert_eq!(all.stranger_at(1, at(999)).expect_err("early"), Refused::Place { count: 20 });
    let mut newcomers: Vec<_> =
        (0..3).map(|n| all.stranger_at(1, at(1000 + n)).expect("the oldest goes")).collect();
    let closed: Vec<_> = silent.iter().map(is_closed).collect();
    assert_eq!(closed, [vec![true; 3], vec![false; 17]].concat());
    assert_eq!(crate::lock(&all.all).admitted, 20, "who is closed counts no more");
    // Who has logged in is not closed, and who was closed can't log in any more.
    newcomers[0].log_in(&user("ann"), false).expect("room");
    let mut late = silent;
    assert_eq!(late[0].log_in(&user("ann"), false), Err(Refused::Late));
    late[3].log_in(&user("ann"), false).expect("in time");
    let later: Vec<_> =
        (0..40).map(|n| all.stranger_at(1, at(9000 + 50 * n)).expect("room")).collect();
    assert!(!is_closed(&newcomers[0]) && !is_closed(&late[3]));
    assert!(newcomers[1..].iter().chain(&late[4..]).all(is_closed));
    drop((newcomers, late, later));
    assert!(all.is_empty());
}

#[test]
fn service_f116_strangers_of_many_places_keep_nobody_out() {
    let all = Admission::new(64, Some(64), 8);
    let begin = Instant::now();
    let mut strangers: Vec<_> = (0..64).map(|n| all.stranger_at(n, begin).expect("room")).collect();
    assert_eq!(all.stranger_at(100, begin).expect_err("early"), Refused::Full { max: 64 });
    let mut operator = all.stranger_at(100, begin + GRACE).expect("the oldest goes");
    operator.log_in(&user("operator"), true).expect("kept for them");
    assert!(crate::lock(&strangers[0].exit.state).is_closed);
    // Without any stranger that had its time, all that are accepted are bounded.
    let more = (0..2 * BEYOND).filter_map(|_| all.enter(from(101), begin + GRACE).ok());
    strangers.extend(more.collect::<Vec<_>>());
    assert!(crate::lock(&all.all).accepted <= 64 + 2 * BEYOND);
    drop((strangers, operator));
    assert!(all.is_empty());
}

#[test]
fn service_f116_a_stranger_that_waits_for_the_server_is_not_closed() {
    let all = Admission::new(64, Some(64), 8);
    let begin = Instant::now() - GRACE;
    let mut tickets: Vec<_> = (0..16).map(|_| all.enter(from(1), begin).expect("room")).collect();
    let is_closed = |ticket: &Ticket| crate::lock(&ticket.exit.state).is_closed;
    let busy: Vec<_> = tickets.iter().map(|ticket| ticket.when_busy()()).collect();
    let now = Instant::now();
    assert_eq!(all.enter(from(1), now).expect_err("all are busy"), Refused::Place { count: 16 });
    // Their time begins when they are busy no more.
    drop(busy);
    assert_eq!(all.enter(from(1), now).expect_err("early"), Refused::Place { count: 16 });
    let later = Instant::now() + GRACE;
    let busy = tickets[0].when_busy()();
    let newcomer = all.enter(from(1), later).expect("the oldest that is not busy goes");
    assert_eq!(tickets.iter().map(is_closed).collect::<Vec<_>>()[..3], [false, true, false]);
    drop(busy);
    tickets[0].admit(true, later).expect("room");
    drop((tickets, newcomer));
    assert!(all.is_empty());
}
