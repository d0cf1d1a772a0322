//! The graph by itself: facts in, victims out.

use super::*;
use crate::token::Epoch;

const T1: Owner = Owner(1);
const T2: Owner = Owner(2);
const T3: Owner = Owner(3);

fn record(id: &str) -> Record {
    Record::new("r", id).unwrap()
}

fn waits(session: u64, id: &str, owner: Owner) -> Fact {
    Fact::Waits {
        session: SessionId(session),
        seq: Seq(session * 10),
        record: record(id),
        mode: Mode::Write,
        ticket: Ticket::new(Epoch::NONE, session).unwrap(),
        upgrade: false,
        owners: vec![owner],
    }
}

fn holds(session: u64, id: &str, owner: Owner, local: &[(Owner, Owner)]) -> Fact {
    let waits = local.iter().map(|&(waiter, holder)| LocalWait { waiter, holder }).collect();
    Fact::Holds {
        session: SessionId(session),
        seq: Seq(1),
        record: record(id),
        mode: Mode::Write,
        number: 1,
        holders: vec![owner],
        waits,
    }
}

#[test]
fn the_youngest_wait_of_a_cycle_is_refused_and_told_the_cycle() {
    let mut graph = WaitGraph::new(100);
    assert_eq!(graph.handle(waits(1, "y", T1)), []);
    assert_eq!(graph.handle(holds(2, "y", T2, &[])), []);
    assert_eq!(graph.handle(waits(2, "x", T2)), []);
    let victim = graph.handle(holds(1, "x", T1, &[])).pop().unwrap();
    assert_eq!((victim.session, victim.record), (SessionId(2), record("x")));
    assert_eq!(victim.cycle, [T1, T2]);
}

#[test]
fn a_report_that_closes_two_cycles_breaks_both() {
    let mut graph = WaitGraph::new(100);
    graph.handle(waits(1, "y", T1));
    for (session, owner) in [(2, T2), (3, T3)] {
        graph.handle(holds(session, "y", owner, &[]));
        graph.handle(waits(session, "x", owner));
    }
    let victims = graph.handle(holds(1, "x", T1, &[]));
    let sessions: BTreeSet<_> = victims.iter().map(|victim| victim.session.0).collect();
    assert_eq!(sessions, [2, 3].into());
}

#[test]
fn a_cycle_beside_the_reported_holder_is_found() {
    let mut graph = WaitGraph::new(100);
    let far = Owner(9);
    graph.handle(waits(3, "z", T3));
    graph.handle(holds(8, "z", T2, &[]));
    // Nobody waits for the holder of y; but on its node 2 waits for 3.
    let victims = graph.handle(holds(7, "y", far, &[(far, T2), (T2, T3)]));
    assert_eq!(victims.len(), 1);
    assert_eq!(victims[0].session, SessionId(3));
}

#[test]
fn a_reader_does_not_wait_for_a_writer_in_line_while_a_writer_holds() {
    let mut graph = WaitGraph::new(100);
    graph.handle(holds(9, "x", T1, &[]));
    graph.handle(waits(2, "x", T2));
    let mut reader = waits(3, "x", T3);
    if let Fact::Waits { mode, .. } = &mut reader {
        *mode = Mode::Read;
    }
    graph.handle(reader);
    graph.handle(holds(8, "y", T3, &[]));
    assert_eq!(graph.handle(waits(4, "y", T2)), []);
}

/// A reader that came before the writer waits for it all the same, once the read phase has
/// begun.
#[test]
fn a_reader_waits_for_the_first_writer_while_readers_hold() {
    let mut graph = WaitGraph::new(100);
    let reading = |mut fact: Fact| {
        if let Fact::Waits { mode, .. } | Fact::Holds { mode, .. } = &mut fact {
            *mode = Mode::Read;
        }
        fact
    };
    graph.handle(reading(holds(9, "x", T1, &[])));
    graph.handle(reading(waits(2, "x", T2)));
    graph.handle(waits(3, "x", T3));
    graph.handle(holds(8, "y", T2, &[]));
    assert_eq!(graph.handle(waits(4, "y", T1)).len(), 1);
}

#[test]
fn one_number_in_two_scopes_is_two_owners() {
    let (a, b) = (Scope(1), Scope(2));
    let mut graph = WaitGraph::new(100);
    // In the one, owner 1 waits for owner 2; in the other it is the other way round.
    assert_eq!(graph.handle_in(a, holds(1, "x", T2, &[])), []);
    assert_eq!(graph.handle_in(a, waits(2, "x", T1)), []);
    assert_eq!(graph.handle_in(b, holds(3, "y", T1, &[])), []);
    assert_eq!(graph.handle_in(b, waits(4, "y", T2)), []);
    assert_eq!(graph.handle_in(b, holds(5, "z", T1, &[(T1, T2)])).len(), 1);
}

#[test]
fn an_owner_that_waits_for_itself_on_another_node_is_refused() {
    let mut graph = WaitGraph::new(100);
    graph.handle(holds(1, "x", T1, &[]));
    let victims = graph.handle(waits(2, "x", T1));
    assert_eq!(victims[0].cycle, [T1]);
}

#[test]
fn a_long_line_is_searched_step_by_step() {
    let mut graph = WaitGraph::new(10_000);
    graph.handle(holds(9_999, "x", T1, &[]));
    for number in 10..300 {
        assert_eq!(graph.handle(waits(number, "x", Owner(number))), []);
    }
    // The last in line holds what the first holder waits for.
    graph.handle(holds(9_998, "y", Owner(299), &[]));
    assert_eq!(graph.handle(waits(301, "y", T1)).len(), 1);
}

#[test]
fn a_wait_on_one_node_is_part_of_a_cycle() {
    let mut graph = WaitGraph::new(100);
    graph.handle(waits(1, "w", T1));
    graph.handle(holds(3, "w", T3, &[]));
    graph.handle(waits(3, "z", T3));
    // On node 1 owner 2 holds z, and waits there for owner 1.
    let victim = graph.handle(holds(1, "z", T2, &[(T2, T1)])).pop().unwrap();
    assert_eq!(victim.session, SessionId(3));
    assert_eq!(victim.cycle.len(), 3);
}

#[test]
fn who_waits_before_is_waited_for() {
    let mut graph = WaitGraph::new(100);
    graph.handle(holds(9, "x", T1, &[]));
    graph.handle(waits(2, "x", T2));
    graph.handle(waits(3, "x", T3));
    graph.handle(holds(8, "y", T3, &[]));
    let victim = graph.handle(waits(4, "y", T2)).pop().unwrap();
    assert_eq!(victim.session, SessionId(4));
}

#[test]
fn what_is_gone_closes_no_cycle() {
    let mut graph = WaitGraph::new(100);
    graph.handle(waits(1, "y", T1));
    graph.handle(holds(2, "y", T2, &[]));
    graph.handle(Fact::Gone { session: SessionId(2), seq: Seq(1) });
    graph.handle(waits(2, "x", T2));
    assert_eq!(graph.handle(holds(1, "x", T1, &[])), []);
    for (session, seq) in [(1, 10), (2, 20), (1, 1)] {
        graph.handle(Fact::Gone { session: SessionId(session), seq: Seq(seq) });
    }
    assert!(graph.is_empty() && graph.at.is_empty() && graph.at_of.is_empty());
    assert!(graph.waits_of.is_empty() && graph.reports_of.is_empty());
}

#[test]
fn a_late_report_does_not_replace_a_later_one() {
    let mut graph = WaitGraph::new(100);
    let mut newer = holds(2, "y", T3, &[]);
    if let Fact::Holds { number, .. } = &mut newer {
        *number = 2;
    }
    graph.handle(newer);
    graph.handle(holds(2, "y", T2, &[]));
    graph.handle(waits(1, "y", T1));
    graph.handle(waits(2, "x", T2));
    assert_eq!(graph.handle(holds(1, "x", T1, &[])), []);
}

/// All that the backlog finds, and after how many calls it is empty.
fn search_all(graph: &mut WaitGraph) -> (Vec<Victim>, usize) {
    let (mut victims, mut calls) = (Vec::new(), 0);
    while graph.is_searching() {
        let before = graph.steps();
        victims.extend(graph.search_on());
        calls += 1;
        assert!(graph.steps() - before <= graph.steps_max as u64, "a call is bounded");
        assert!(calls < 100_000, "it comes to an end");
    }
    (victims, calls)
}

#[test]
fn a_search_that_is_too_long_goes_on_later() {
    let mut graph = WaitGraph::new(1);
    graph.handle(waits(1, "y", T1));
    graph.handle(holds(2, "y", T2, &[]));
    graph.handle(waits(2, "x", T2));
    assert_eq!(graph.handle(holds(1, "x", T1, &[])), []);
    let (victims, calls) = search_all(&mut graph);
    assert_eq!(victims.len(), 1);
    assert_eq!((victims[0].session, &victims[0].cycle[..]), (SessionId(2), &[T1, T2][..]));
    assert!(calls > 4, "{calls} calls of one step each");
}

/// Owner 0 waits for owner 1, who waits for owner 2, and so on: a chain of so many.
fn chain(steps_max: usize, owners: u64) -> WaitGraph {
    let mut graph = WaitGraph::new(steps_max);
    // From its head on, so that nothing is reached yet from who comes.
    for number in 0..owners {
        let id = number.to_string();
        assert_eq!(graph.handle(waits(1 + number, &id, Owner(number))), []);
        assert_eq!(graph.handle(holds(1_000_000 + number, &id, Owner(number + 1), &[])), []);
    }
    assert!(!graph.is_searching());
    graph
}

/// An acquire at the head of a chain looks at each owner of it once, and nobody waits for that
/// longer than for a bounded number of steps.
#[test]
fn service_f70_a_search_takes_steps_in_proportion_to_what_it_reaches() {
    let cost = |owners: u64| {
        let mut graph = chain(1_000, owners);
        let before = graph.steps();
        assert_eq!(graph.handle(waits(2_000_000, "0", Owner(5_000_000))), []);
        assert!(graph.steps() - before <= 1_000, "a fact is answered soon");
        search_all(&mut graph);
        graph.steps() - before
    };
    let (short, long) = (cost(2_000), cost(8_000));
    assert!(long >= 8_000, "{long} steps see the whole chain");
    assert!(long <= 8_000 * 24, "{long} steps for 8,000 owners");
    // What does not grow with the chain is the part before the first rest, which is done again.
    assert!(long <= 4 * short + 1_000, "{short} steps for 2,000 owners, {long} for 8,000");
}

#[test]
fn service_f70_a_cycle_of_thousands_is_found() {
    let mut graph = chain(1_000, 5_000);
    // The last owner waits for the first.
    graph.handle(holds(3_000_000, "back", Owner(0), &[]));
    assert_eq!(graph.handle(waits(2_000_000, "back", Owner(5_000))), [], "not within the steps");
    let (victims, calls) = search_all(&mut graph);
    assert_eq!(victims.len(), 1);
    assert_eq!((victims[0].session, victims[0].cycle.len()), (SessionId(2_000_000), 5_001));
    assert!(calls > 10, "in {calls} parts");
}

/// Many wait for many at one record: the holders are looked at once, and not once for each waiter.
#[test]
fn service_f70_a_crowded_record_is_searched_once() {
    let cost = |number: u64| {
        let mut graph = WaitGraph::new(1_000);
        for one in 0..number {
            let mut hold = holds(1_000_000 + one, "x", Owner(1_000_000 + one), &[]);
            if let Fact::Holds { mode, .. } = &mut hold {
                *mode = Mode::Read;
            }
            graph.handle(hold);
        }
        for one in 1..=number {
            graph.handle(waits(one, "x", Owner(one)));
            search_all(&mut graph);
        }
        let before = graph.steps();
        graph.handle(waits(number + 1, "x", Owner(number + 1)));
        search_all(&mut graph);
        graph.steps() - before
    };
    let (few, many) = (cost(80), cost(160));
    assert!(many <= 2 * few + 1_000, "{few} steps for 80 of each, {many} for 160");
}

/// Waits of one owner behind each other in a line are no deadlock, and cost no more than others.
#[test]
fn service_f70_many_waits_of_one_owner_in_one_line() {
    let cost = |number: u64| {
        let mut graph = WaitGraph::new(1_000);
        graph.handle(holds(9_000_000, "x", T2, &[]));
        for one in 1..=number {
            assert_eq!(graph.handle(waits(one, "x", T1)), []);
            assert_eq!(search_all(&mut graph).0, []);
        }
        let before = graph.steps();
        graph.handle(waits(number + 1, "x", T1));
        search_all(&mut graph);
        graph.steps() - before
    };
    let (few, many) = (cost(80), cost(160));
    assert!(many <= 2 * few + 1_000, "{few} steps for 80 waits, {many} for 160");
}

/// A cycle of waits on one node alone hides no cycle through an acquire.
#[test]
fn a_local_cycle_does_not_hide_another() {
    let mut graph = WaitGraph::new(1_000);
    graph.handle(holds(1, "x", T2, &[(T1, T2), (T2, T1)]));
    assert_eq!(graph.handle(waits(2, "x", T1)).len(), 1);
}

/// While a search rests, what it has seen may dissolve, and something else may come.
#[test]
fn service_f70_a_search_that_rests_finds_what_stands_and_nothing_else() {
    for gone in [None, Some(2_500), Some(4_999)] {
        let mut graph = chain(1_000, 5_000);
        graph.handle(holds(3_000_000, "back", Owner(0), &[]));
        assert_eq!(graph.handle(waits(2_000_000, "back", Owner(5_000))), []);
        assert_eq!(graph.search_on(), []);
        if let Some(number) = gone {
            let (session, seq) = (SessionId(1 + number), Seq((1 + number) * 10));
            graph.handle(Fact::Gone { session, seq });
        }
        let (victims, _) = search_all(&mut graph);
        assert_eq!(victims.len(), usize::from(gone.is_none()), "{gone:?}");
    }
}

/// The same graph, its facts in any order, with steps enough and with one step at a time: the same
/// cycles are broken in the end.
#[test]
fn service_f70_searches_in_small_parts_leave_no_cycle() {
    for seed in 0..300_u64 {
        let facts = |steps: usize, pause: bool| {
            let mut graph = WaitGraph::new(steps);
            let mut draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = |below: u64| {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (draw >> 33) % below
            };
            for number in 1..=24_u64 {
                let (id, owner) = (next(6).to_string(), Owner(next(8)));
                let mut fact = match next(3) {
                    0 => holds(100 + number, &id, owner, &[(owner, Owner(next(8)))]),
                    1 => holds(100 + number, &id, owner, &[]),
                    _ => waits(number, &id, owner),
                };
                if let Fact::Waits { mode, .. } | Fact::Holds { mode, .. } = &mut fact
                    && next(2) == 0
                {
                    *mode = Mode::Read;
                }
                graph.handle(fact);
                if pause {
                    graph.search_on();
                } else {
                    search_all(&mut graph);
                }
            }
            search_all(&mut graph);
            graph
        };
        for graph in [facts(100_000, false), facts(1, true), facts(3, true)] {
            assert!(!has_cycle(&graph), "seed {seed}: {graph:#?}");
        }
    }
}

/// Looks for a cycle in the plain way: all edges between owners, then who reaches itself by at
/// least one acquire.
fn has_cycle(graph: &WaitGraph) -> bool {
    let mut edges: Vec<(Who, Who, bool)> = Vec::new();
    for (key, wait) in &graph.waits {
        let at = &graph.at[wait.at];
        let holds = graph.holds.iter().filter(|(other, it)| it.at == wait.at && other.0 != key.0);
        let holds: Vec<_> = holds.map(|(_, hold)| hold).collect();
        let held = |mode| graph.holds.values().any(|it| it.at == wait.at && it.mode == mode);
        let writers: Vec<_> = at.writers.iter().map(|(_, key)| key).collect();
        let place = writers.iter().position(|other| *other == key);
        let mut ahead: Vec<&Key> = at.upgraders.iter().filter(|other| *other != key).collect();
        match (wait.upgrade, place) {
            (true, _) => {}
            (false, None) if held(Mode::Read) && !held(Mode::Write) => {
                ahead.extend(writers.first());
            }
            (false, None) => {}
            (false, Some(place)) => {
                ahead.extend(&writers[..place]);
                if place == 1 || (place == 0 && held(Mode::Write)) {
                    ahead.extend(at.readers.iter().map(|(_, key)| key));
                }
            }
        }
        for &owner in &wait.owners {
            for hold in holds.iter().filter(|hold| wait.mode.conflicts(hold.mode)) {
                edges.extend(hold.holders.iter().map(|&to| (owner, to, true)));
            }
            let before = ahead.iter().flat_map(|key| &graph.waits[key].owners);
            edges.extend(before.filter(|to| **to != owner).map(|&to| (owner, to, true)));
        }
    }
    let local = graph.holds.values().flat_map(|hold| &hold.waits);
    edges.extend(local.map(|wait| (wait.waiter, wait.holder, false)));
    let starts: BTreeSet<Who> = edges.iter().map(|edge| edge.0).collect();
    starts.into_iter().any(|start| {
        let mut reached = BTreeSet::from([(start, false)]);
        loop {
            let more: Vec<_> = edges
                .iter()
                .flat_map(|&(from, to, waits)| {
                    let known =
                        [false, true].into_iter().filter(|it| reached.contains(&(from, *it)));
                    known.map(|waited| (to, waited || waits)).collect::<Vec<_>>()
                })
                .filter(|it| !reached.contains(it))
                .collect();
            if more.is_empty() {
                return reached.contains(&(start, true));
            }
            reached.extend(more);
        }
    })
}
