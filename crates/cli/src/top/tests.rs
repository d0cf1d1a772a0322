//! `top` on a screen that is not there.

use std::time::{Duration, Instant};

use lockspan_wire::Value;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::look::{Counts, Deadlock, Happened, News, Seen, Session, counts, happenings, waits};
use super::screen::Screen;
use super::tree;
use crate::exit::{Failure, UNAVAILABLE};
use crate::locks::{Claim, Locked};

fn claim(session: &str, mode: &str, token: Option<&str>) -> Claim {
    let owned = |text: &str| text.to_owned();
    let token = token.map(owned);
    Claim { session: owned(session), mode: owned(mode), token, revoked: None, age_ms: 4200 }
}

fn locked(name: &str, state: &str, waiters: usize) -> Locked {
    Locked {
        name: name.to_owned(),
        key: name.as_bytes().to_vec(),
        state: state.to_owned(),
        holders: vec![claim("4711", "W", Some("1099511627777"))],
        waiters: (0..waiters).map(|at| claim(&at.to_string(), "R", None)).collect(),
        more_holders: 0,
        more_waiters: 0,
    }
}

fn seen(grants: u64, at: Instant) -> Seen {
    let session = |id: &str, left_ms| Session {
        id: id.to_owned(),
        user: if left_ms > 1000 { "ann".to_owned() } else { String::new() },
        lease_ms: 10_000,
        left_ms,
        connections: 1,
        records: 3,
        ends: left_ms < 1000,
    };
    let text = |text: &str| text.to_owned();
    Seen {
        at: Some(at),
        records: vec![
            locked("invoice:42", "alone", 0),
            locked("order:7", "alone-wanted", 6),
            locked("order:8", "alone-wanted", 1),
        ],
        more: false,
        sessions: vec![session("4711", 9000), session("9", 500)],
        counts: Counts { grants, records: 3, sessions: 2, ..Counts::default() },
        wanted: vec![locked("order:7", "alone-wanted", 6), locked("order:8", "alone-wanted", 1)],
        deadlocks: vec![Deadlock {
            age_ms: 61_000,
            session: text("9"),
            record: text("account:a"),
            owners: vec![text("7"), text("8")],
        }],
        history: vec![Happened {
            age_ms: 1500,
            session: text("4711"),
            what: text("granted"),
            more: vec![text("W"), text("token 1099511627777")],
        }],
    }
}

fn screen() -> Screen {
    let mut screen = Screen::new("lockspan://127.0.0.1:7420".to_owned(), None);
    let now = Instant::now();
    screen.take(Ok(News::All(Box::new(seen(100, now)))));
    screen.take(Ok(News::All(Box::new(seen(600, now + Duration::from_secs(2))))));
    screen
}

fn shown(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(row).collect()
}

fn press(screen: &mut Screen, code: KeyCode) {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE));
}

/// The names of the records, from top to bottom.
fn names(screen: &mut Screen) -> Vec<String> {
    let lines = shown(screen, 100, 30);
    let rows = lines.iter().skip(4).filter(|line| line.starts_with('│'));
    let first = rows.filter_map(|line| line.trim_matches('│').split_whitespace().next());
    first.filter(|word| word.contains(':')).map(str::to_owned).collect()
}

#[test]
fn the_screen_shows_rates_records_and_who_is_chosen() {
    let lines = shown(&mut screen(), 160, 24);
    assert!(lines[0].starts_with("lockspan lockspan://127.0.0.1:7420"), "{lines:#?}");
    assert!(lines[1].contains("3 records  2 sessions"), "{lines:#?}");
    assert!(lines[1].contains("per second: 250 grants"), "{lines:#?}");
    assert!(lines[2].contains("Records: 3 of all, by waiters ▼"), "{lines:#?}");
    assert!(lines[4].contains("order:7") && lines[4].contains("alone-wanted"), "{lines:#?}");
    let whole = lines.join("\n");
    assert!(whole.contains("Waiting (6)") && whole.contains(" 4.2 s R 5"), "{whole}");
    assert!(whole.contains(" 4.2 s W 4711 token 1099511627777"), "{whole}");
    assert!(whole.contains("1.5 s ago: granted 4711, W, token 1099511627777"), "{whole}");
    assert!(lines[3].contains("HELD FOR") && lines[4].contains("4.2 s"), "{lines:#?}");
}

#[test]
fn on_80_columns_the_last_line_is_whole_and_so_are_ids_in_the_details() {
    let mut screen = screen();
    let (id, token) = ("s0123456789ab", "9223372036854775807");
    for record in &mut screen.seen.records {
        record.holders = vec![claim(id, "W", Some(token))];
        record.waiters = vec![claim("sba9876543210", "R", None)];
    }
    screen.seen.history[0].session = id.to_owned();
    screen.seen.sessions[0].id = id.to_owned();
    screen.seen.counts =
        Counts { records: 130, sessions: 160, connections: 170, ..screen.seen.counts };
    let lines = shown(&mut screen, 80, 24);
    assert_eq!(lines[23].trim_end(), super::draw::KEYS);
    assert!(lines[1].contains("170 connections") && lines[2].contains("0 releases"), "{lines:#?}");
    press(&mut screen, KeyCode::Enter);
    let whole = shown(&mut screen, 80, 24).join("\n");
    for part in [&format!("W {id} token {token}"), "R sba9876543210", &format!("granted {id}, W")] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    press(&mut screen, KeyCode::Esc);
    assert!(!screen.is_over() && shown(&mut screen, 80, 24)[4].contains("STATE"));
    press(&mut screen, KeyCode::Char('2'));
    let sessions = shown(&mut screen, 80, 24).join("\n");
    assert!(sessions.contains(id) && sessions.contains("ann"), "{sessions}");
}

#[test]
fn an_empty_list_is_not_said_to_be_all_there_is() {
    let mut screen = screen();
    screen.seen.records.clear();
    assert!(shown(&mut screen, 80, 24).join("").contains(" nothing is locked "));
    press(&mut screen, KeyCode::Char('/'));
    press(&mut screen, KeyCode::Char('x'));
    press(&mut screen, KeyCode::Enter);
    assert!(shown(&mut screen, 80, 24).join("").contains(" nothing matches the filter "));
}

#[test]
fn records_are_sorted_and_reversed() {
    let mut screen = screen();
    assert_eq!(names(&mut screen), ["order:7", "order:8", "invoice:42"]);
    press(&mut screen, KeyCode::Char('r'));
    assert_eq!(names(&mut screen), ["invoice:42", "order:8", "order:7"]);
    press(&mut screen, KeyCode::Char('r'));
    for _ in 0..3 {
        press(&mut screen, KeyCode::Char('s'));
    }
    assert_eq!(names(&mut screen), ["invoice:42", "order:7", "order:8"]);
}

#[test]
fn a_filter_is_written_taken_and_dropped() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('/'));
    // While one writes, letters are letters.
    for letter in "qx".chars() {
        press(&mut screen, KeyCode::Char(letter));
    }
    press(&mut screen, KeyCode::Backspace);
    let last = shown(&mut screen, 80, 20).pop().unwrap();
    assert!(last.starts_with("filter: q_"), "{last}");
    assert_eq!(screen.want().pattern, None, "not yet");
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.want().pattern.as_deref(), Some("*q*"));
    press(&mut screen, KeyCode::Char('/'));
    press(&mut screen, KeyCode::Char('*'));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.want().pattern.as_deref(), Some("*q*"), "it is as it was");
    assert!(!screen.is_over());
}

#[test]
fn sessions_have_a_list_of_their_own() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Tab);
    let lines = shown(&mut screen, 100, 24);
    assert!(lines[2].contains("Sessions: 2 of all, by id"), "{lines:#?}");
    for word in ["9", "10 s", "500 ms", "3", "ends: not renewed"] {
        assert!(lines[4].contains(word), "{word}: {lines:#?}");
    }
    for word in ["4711", "ann", "9.0 s", "open"] {
        assert!(lines[5].contains(word), "{word}: {lines:#?}");
    }
    // What it has is below.
    press(&mut screen, KeyCode::Down);
    let whole = shown(&mut screen, 100, 24).join("\n");
    assert!(whole.contains("Session 4711: 3 records"), "{whole}");
    assert!(whole.contains("invoice:42: holds it, W, 4.2 s, token 1099511627777"), "{whole}");
    press(&mut screen, KeyCode::Char('/'));
    for letter in "an".chars() {
        press(&mut screen, KeyCode::Char(letter));
    }
    press(&mut screen, KeyCode::Enter);
    let lines = shown(&mut screen, 100, 24);
    assert!(lines[2].contains("Sessions: 1 of an"), "{lines:#?}");
    assert_eq!(screen.want().pattern, None, "records are not concerned");
}

#[test]
fn who_waits_for_whom_is_a_tree() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('3'));
    let whole = shown(&mut screen, 100, 24).join("\n");
    for line in [
        "session 4711",
        "├─ order:7: session 0 waits, R, 4.2 s",
        "└─ order:8: session 0 waits, R, 4.2 s",
        "Deadlocks that were refused: 1",
        "61 s ago: account:a to session 9; owners 7 → 8 → 7",
    ] {
        assert!(whole.contains(line), "{line}: {whole}");
    }
    // Two that wait for each other: each is told of once.
    let record = |name: &str, holder: &str, waiter: &str| Locked {
        holders: vec![claim(holder, "W", None)],
        waiters: vec![claim(waiter, "W", None)],
        ..locked(name, "alone-wanted", 0)
    };
    let lines = tree::lines(&[record("a:1", "1", "2"), record("b:1", "2", "1")]);
    assert_eq!(
        lines,
        [
            "session 1",
            "└─ a:1: session 2 waits, W, 4.2 s",
            "   └─ b:1: session 1 waits, W, 4.2 s  (see above)",
        ]
    );
    let long: Vec<_> =
        (0..50).map(|at| record("a:1", &at.to_string(), &(at + 1).to_string())).collect();
    let lines = tree::lines(&long);
    assert!(lines[0] == "session 0" && lines.iter().any(|it| it.ends_with("...")), "{lines:#?}");
    assert!(lines.len() < 100, "{lines:#?}");
}

#[test]
fn a_record_that_is_chosen_is_asked_for() {
    let mut screen = screen();
    assert_eq!(screen.want().chosen.as_deref(), Some(&b"order:7"[..]));
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.want().chosen.as_deref(), Some(&b"order:8"[..]));
    screen.take(Ok(News::History(Vec::new())));
    assert!(shown(&mut screen, 160, 24).join("\n").contains("nothing that is remembered"));
    press(&mut screen, KeyCode::Tab);
    assert_eq!(screen.want().chosen, None);
}

#[test]
fn help_covers_the_screen_until_a_key_is_pressed() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('?'));
    assert!(shown(&mut screen, 80, 24).join("\n").contains("Records by name"));
    press(&mut screen, KeyCode::Char('q'));
    assert!(!screen.is_over(), "that key closed the help");
    assert!(!shown(&mut screen, 80, 24).join("\n").contains("Records by name"));
    press(&mut screen, KeyCode::Char('q'));
    assert!(screen.is_over());
}

#[test]
fn a_pause_keeps_what_is_shown() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('p'));
    screen.take(Ok(News::All(Box::default())));
    assert_eq!(names(&mut screen).len(), 3);
    assert!(shown(&mut screen, 80, 20)[0].contains("[paused]"));
    press(&mut screen, KeyCode::Char('p'));
    screen.take(Ok(News::All(Box::default())));
    assert_eq!(names(&mut screen).len(), 0);
}

#[test]
fn any_size_can_be_drawn() {
    let mut screen = screen();
    for (width, height) in [(1, 1), (10, 3), (20, 5), (40, 8), (300, 100)] {
        for code in
            [KeyCode::Char('?'), KeyCode::Char('x'), KeyCode::Tab, KeyCode::End, KeyCode::PageUp]
        {
            press(&mut screen, code);
            shown(&mut screen, width, height);
        }
    }
}

#[test]
fn a_service_that_is_gone_ends_it() {
    let mut screen = screen();
    screen.take(Err(Failure::new(UNAVAILABLE, "gone")));
    assert!(screen.is_over());
    assert_eq!(screen.failed().as_deref(), Some("gone"));
}

#[test]
fn what_info_tells_is_read() {
    let text = "# Clients\r\nconnected_clients:2\r\n# Lockspan\r\nsessions:3\r\nrecords:4\r\n\
                recovering:1\r\ngrants:5\r\nrevokes:6\r\nreleases:7\r\ndeadlocks:8\r\n";
    let read = counts(&Value::bulk(text)).unwrap();
    assert_eq!((read.connections, read.sessions, read.deadlocks, read.recovering), (2, 3, 8, true));
    assert_eq!(counts(&Value::bulk("nothing")), None);
    assert_eq!(counts(&Value::Null), None);
}

#[test]
fn what_happened_and_who_waits_is_read() {
    let happened = Value::map([
        ("age-ms", Value::Int(1500)),
        ("session", u64::MAX.into()),
        ("what", "handed-over".into()),
        ("mode", "W".into()),
        ("token", Value::Int(7)),
        ("waited-ms", Value::Int(20)),
    ]);
    let read = happenings(&Value::Array(vec![happened])).unwrap();
    assert_eq!(read[0].session, u64::MAX.to_string());
    assert_eq!(read[0].more, ["W", "token 7", "waited 20 ms"]);
    let deadlock = Value::map([
        ("age-ms", Value::Int(5)),
        ("session", Value::Int(1)),
        ("record", "a:1".into()),
        ("owners", Value::Array(vec![Value::Int(1), u64::MAX.into()])),
    ]);
    let reply = Value::map([
        ("records", Value::Array(Vec::new())),
        ("owners", Value::Array(Vec::new())),
        ("deadlocks", Value::Array(vec![deadlock])),
    ]);
    let (records, deadlocks) = waits(&reply).unwrap();
    assert!(records.is_empty());
    assert_eq!(deadlocks[0].owners, ["1".to_owned(), u64::MAX.to_string()]);
    for odd in [Value::Null, Value::Array(vec![Value::Null])] {
        assert_eq!((happenings(&odd), waits(&odd)), (None, None));
    }
}
