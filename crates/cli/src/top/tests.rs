//! `top` on a screen that is not there.

use std::time::{Duration, Instant};

use lockspan_wire::Value;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;

use super::look::{Counts, News, Seen, counts};
use super::screen::Screen;
use crate::exit::{Failure, NO_PERMISSION};
use crate::replies::{Claim, Deadlock, Happened, Locked, Name, Session, Waits, Who};
use crate::tree;

fn who(id: &str) -> Who {
    // Some sessions have no label.
    let label = (id == "4711").then(|| "billing@host9[412]".to_owned());
    Who { id: id.to_owned(), label }
}

fn claim(session: &str, mode: &str, token: Option<&str>) -> Claim {
    let owned = |text: &str| text.to_owned();
    Claim {
        who: who(session),
        seq: owned("1"),
        mode: owned(mode),
        token: token.map(owned),
        revoked: None,
        note: token.map(|_| owned("nightly import")),
        age_ms: 4200,
    }
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
        who: who(id),
        user: if left_ms > 1000 { "ann".to_owned() } else { String::new() },
        lease_ms: 10_000,
        left_ms: Some(left_ms),
        recovers: false,
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
        waits: Waits {
            records: vec![
                locked("order:7", "alone-wanted", 6),
                locked("order:8", "alone-wanted", 1),
            ],
            owners: Vec::new(),
            deadlocks: vec![Deadlock {
                age_ms: 61_000,
                who: who("9"),
                record: Name(b"account:a".to_vec()),
                owners: vec![text("7"), text("8")],
            }],
        },
        history: vec![Happened {
            age_ms: 1500,
            who: who("4711"),
            what: text("granted"),
            mode: Some(text("W")),
            token: Some(text("1099511627777")),
            waited_ms: None,
            held_ms: None,
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

/// A key for each letter.
fn write(screen: &mut Screen, letters: &str) {
    for letter in letters.chars() {
        press(screen, KeyCode::Char(letter));
    }
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
    assert!(lines[2].contains("Records: 3, sorted by waiters ▼"), "{lines:#?}");
    assert!(lines[4].contains("order:7") && lines[4].contains("alone-wanted"), "{lines:#?}");
    let whole = lines.join("\n");
    assert!(whole.contains("Waiting (6)") && whole.contains(" 6. R 4.2s 5"), "{whole}");
    assert!(whole.contains(" W 4.2s billing@host9[412]"), "{whole}");
    assert!(whole.contains("1.5s ago: granted billing@host9[412]"), "{whole}");
    assert!(lines[3].contains("HELD FOR") && lines[4].contains("4.2s"), "{lines:#?}");
    assert!(lines[4].contains("W billing@host9[412]"), "{lines:#?}");
}

#[test]
fn on_80_columns_nothing_that_matters_is_cut() {
    let mut screen = screen();
    let token = "9223372036854775807";
    let long = |id: &str, label: &str| Who { id: id.to_owned(), label: Some(label.to_owned()) };
    let holder =
        long("s0123456789ab", "a-program-with-a-long-name@a-host-with-a-long-name[4194304]");
    let waiter = long("sba9876543210", "report@host2[99]");
    for record in &mut screen.seen.records {
        let held = claim("", "W", Some(token));
        record.holders = vec![Claim { who: holder.clone(), ..held }];
        record.waiters = vec![Claim { who: waiter.clone(), ..claim("", "R", None) }];
        record.name = format!("{}-with-a-name-that-is-much-too-long", record.name);
    }
    screen.seen.history[0].who = holder.clone();
    screen.seen.sessions[0].who = holder.clone();
    screen.seen.sessions[1].who = waiter;
    screen.seen.counts =
        Counts { records: 130, sessions: 160, connections: 170, ..screen.seen.counts };
    let lines = shown(&mut screen, 80, 24);
    assert_eq!(lines[23].trim_end(), super::draw::KEYS);
    assert!(lines[1].contains("170 connections") && lines[2].contains("0 releases"), "{lines:#?}");
    // Begin and end of names and labels are to be seen.
    assert!(lines[5].contains("order:7") && lines[5].contains("too-long "), "{lines:#?}");
    assert!(lines[5].contains("W a-progr") && lines[5].contains("194304]│"), "{lines:#?}");
    assert!(lines.join("").contains("1. R 4.2s report@host2[99]"), "{lines:#?}");
    // All of it is in the details.
    press(&mut screen, KeyCode::Enter);
    let whole = shown(&mut screen, 80, 24).join("\n").replace("│\n│", "");
    for part in [
        &format!(" W 4.2s {holder}, token {token} (nightly import)"),
        " 1. R 4.2s report@host2[99] (sba9876543210)",
        &format!("ago: granted {holder}, W, token"),
    ] {
        let is_there = without_blanks(&whole).contains(&without_blanks(part));
        assert!(is_there, "{part}: {whole}");
    }
    press(&mut screen, KeyCode::Esc);
    assert!(!screen.is_over() && shown(&mut screen, 80, 24)[4].contains("STATE"));
    press(&mut screen, KeyCode::Char('2'));
    let lines = shown(&mut screen, 80, 24);
    let sessions = lines.join("\n");
    for part in ["s0123456789ab", "sba9876543210", "report@host2[99]", "4194304]", "ann", "STATE"] {
        assert!(sessions.contains(part), "{part}: {sessions}");
    }
    assert!(lines[5].contains("open"), "{sessions}");
    assert!(lines[6].contains("ending"), "{sessions}");
    press(&mut screen, KeyCode::Char('3'));
    let lines = shown(&mut screen, 80, 24);
    assert!(lines.iter().all(|line| !line.contains("wai│")), "{lines:#?}");
    assert_eq!(lines[23].trim_end(), super::draw::KEYS);
}

fn without_blanks(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).collect()
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
fn a_filter_acts_as_it_is_typed_and_is_kept_or_dropped() {
    let mut screen = screen();
    write(&mut screen, "/qx");
    press(&mut screen, KeyCode::Backspace);
    let lines = shown(&mut screen, 80, 20);
    assert!(
        lines[19].starts_with("filter: q_   Enter keeps it, Esc drops it, Ctrl-U"),
        "{lines:#?}"
    );
    assert_eq!(screen.want().pattern.as_deref(), Some("*q*"), "at once");
    assert_eq!(names(&mut screen).len(), 0, "what is known already is filtered too");
    assert!(!screen.is_over(), "a letter is a letter, also q");
    screen.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    assert_eq!(screen.want().pattern, None, "Ctrl-U clears, and types no letter");
    screen.press(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::ALT));
    write(&mut screen, "der");
    assert_eq!(names(&mut screen), ["order:7", "order:8"]);
    assert_eq!(screen.want().chosen.as_deref(), Some(&b"order:7"[..]));
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.want().pattern.as_deref(), Some("*der*"));
    // With * ? or [ it is a pattern for the whole name.
    write(&mut screen, "/:[89]");
    assert_eq!(names(&mut screen).len(), 0);
    assert_eq!(screen.want().pattern.as_deref(), Some("der:[89]"));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.want().pattern.as_deref(), Some("*der*"), "it is as it was");
    assert!(!screen.is_over());
    assert!(shown(&mut screen, 80, 20)[3].contains("Records: 2 matching der"));
}

#[test]
fn every_view_has_a_filter_of_its_own() {
    let mut screen = screen();
    write(&mut screen, "3/order:8q");
    assert!(!screen.is_over(), "q is a letter here too");
    press(&mut screen, KeyCode::Backspace);
    let whole = shown(&mut screen, 100, 24).join("\n");
    assert!(
        whole.contains("1 records matching order:8") && whole.contains("filter: order:8_"),
        "{whole}"
    );
    assert!(!whole.contains("order:7") && whole.contains("Refused deadlocks: 0"), "{whole}");
    screen.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    write(&mut screen, "billing");
    let whole = shown(&mut screen, 100, 24).join("\n");
    assert!(whole.contains("order:7") && whole.contains("order:8"), "by label: {whole}");
    write(&mut screen, "x");
    assert!(shown(&mut screen, 100, 24).join("\n").contains("Nothing matches the filter."));
    press(&mut screen, KeyCode::Enter);
    press(&mut screen, KeyCode::Char('1'));
    assert_eq!((names(&mut screen).len(), screen.want().pattern), (3, None));
}

#[test]
fn a_service_that_is_away_is_told_and_what_was_known_is_marked_as_old() {
    let mut screen = screen();
    screen.take(Ok(News::Away("the service does not answer: it closed the connection".to_owned())));
    assert!(!screen.is_over());
    let lines = shown(&mut screen, 80, 24);
    assert!(lines[0].contains("[reconnecting: what is shown is "), "{lines:#?}");
    assert!(lines[0].contains(" s old]"), "{lines:#?}");
    assert!(lines[1].starts_with("the service does not answer: it closed"), "{lines:#?}");
    assert!(!lines.join("").contains("per second"), "there are no rates now: {lines:#?}");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let style = terminal.backend().buffer()[(2, 5)].style();
    assert!(style.add_modifier.contains(Modifier::DIM), "{style:?}");
    // It is back, and counts anew.
    let now = Instant::now();
    screen.take(Ok(News::All(Box::new(seen(7, now)))));
    let lines = shown(&mut screen, 100, 24);
    assert!(
        !lines.join("").contains("reconnecting") && lines[1].contains(": 0 grants"),
        "{lines:#?}"
    );
    screen.take(Ok(News::All(Box::new(seen(17, now + Duration::from_secs(1))))));
    assert!(shown(&mut screen, 100, 24)[1].contains(": 10 grants"));
}

#[test]
fn sessions_have_a_list_of_their_own() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Tab);
    let lines = shown(&mut screen, 100, 24);
    assert!(lines[2].contains("Sessions: 2, sorted by label"), "{lines:#?}");
    for word in ["-", "9", "500ms", "3", "ending"] {
        assert!(lines[4].contains(word), "{word}: {lines:#?}");
    }
    for word in ["billing@host9[412]", "4711", "ann", "9.0s", "open"] {
        assert!(lines[5].contains(word), "{word}: {lines:#?}");
    }
    // What it has is below.
    press(&mut screen, KeyCode::Down);
    let whole = shown(&mut screen, 100, 24).join("\n");
    assert!(whole.contains("billing@host9[412] (4711), lease 10s: 3 records"), "{whole}");
    let held = "invoice:42: holds it, W, 4.2s, token 1099511627777 (nightly import)";
    assert!(whole.contains(held), "{whole}");
    // By user, by label, by id.
    for text in ["an", "host9", "47*"] {
        write(&mut screen, &format!("/{text}"));
        let lines = shown(&mut screen, 100, 24);
        assert!(lines[2].contains(&format!("Sessions: 1 matching {text}")), "{lines:#?}");
        press(&mut screen, KeyCode::Esc);
    }
    assert_eq!(screen.want().pattern, None, "records are not concerned");
}

#[test]
fn a_filter_of_records_does_not_hide_what_a_session_has() {
    let mut screen = screen();
    write(&mut screen, "/nothing");
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.want().pattern.as_deref(), Some("*nothing*"));
    press(&mut screen, KeyCode::Char('2'));
    assert_eq!(screen.want().pattern, None, "all records are asked for");
    press(&mut screen, KeyCode::Down);
    let whole = shown(&mut screen, 80, 24).join("\n");
    assert!(whole.contains(" billing@host9[412] (4711), lease 10s: 3 records ─"), "{whole}");
    assert!(whole.contains("invoice:42: holds it") && !whole.contains("more"), "{whole}");
    // Of a service with very many records some are not listed.
    screen.seen.records.truncate(1);
    let whole = shown(&mut screen, 80, 24).join("\n");
    assert!(whole.contains("and 2 more"), "{whole}");
    press(&mut screen, KeyCode::Char('1'));
    assert_eq!(screen.want().pattern.as_deref(), Some("*nothing*"));
}

#[test]
fn who_waits_for_whom_is_a_tree() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('3'));
    let whole = shown(&mut screen, 100, 24).join("\n");
    for line in [
        "billing@host9[412] (4711)",
        "├─ order:7 (nightly import): 0 waits 1, R, 4.2s",
        "├─ order:7 (nightly import): 5 waits 6, R, 4.2s",
        "└─ order:8 (nightly import): 0 waits 1, R, 4.2s",
        "Refused deadlocks: 1",
        "1m1s ago: account:a was refused to 9; owners 7 → 8 → 7",
    ] {
        assert!(whole.contains(line), "{line}: {whole}");
    }
    // Where there is no room for ids, there is for labels.
    let whole = shown(&mut screen, 45, 24).join("\n");
    assert!(whole.contains("billing@host9[412] "), "{whole}");
    assert!(!whole.contains("(4711)"), "{whole}");
    // Two that wait for each other: each is told of once.
    let record = |name: &str, holder: &str, waiter: &str| Locked {
        holders: vec![claim(holder, "W", None)],
        waiters: vec![claim(waiter, "W", None)],
        ..locked(name, "alone-wanted", 0)
    };
    let lines = tree::lines(&[record("a:1", "1", "2"), record("b:1", "2", "1")], None);
    assert_eq!(
        lines,
        ["1", "└─ a:1: 2 waits 1, W, 4.2s", "   └─ b:1: 1 waits 1, W, 4.2s  (see above)",]
    );
    // Readers hold it; a reader that came after a waiting writer waits for the writer.
    let shared = Locked {
        holders: vec![claim("1", "R", None)],
        waiters: ["W", "R", "R", "W"]
            .iter()
            .zip(2..)
            .map(|(mode, at)| claim(&format!("{at}"), mode, None))
            .collect(),
        ..locked("c:1", "shared-wanted", 0)
    };
    assert_eq!(
        tree::lines(&[shared], None),
        [
            "1",
            "├─ c:1: 2 waits 1, W, 4.2s",
            "├─ c:1: 3 waits 2 behind 1, R, 4.2s",
            "├─ c:1: 4 waits 3 behind 1, R, 4.2s",
            "└─ c:1: 5 waits 4 behind 2-3, W, 4.2s",
        ]
    );
    let long: Vec<_> =
        (0..50).map(|at| record("a:1", &at.to_string(), &(at + 1).to_string())).collect();
    let lines = tree::lines(&long, None);
    assert!(lines[0] == "0" && lines.iter().any(|it| it.ends_with("...")), "{lines:#?}");
    assert!(lines.len() < 100, "{lines:#?}");
}

#[test]
fn a_record_that_is_chosen_is_asked_for() {
    let mut screen = screen();
    assert_eq!(screen.want().chosen.as_deref(), Some(&b"order:7"[..]));
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.want().chosen.as_deref(), Some(&b"order:8"[..]));
    screen.take(Ok(News::History(Vec::new())));
    assert!(shown(&mut screen, 160, 24).join("\n").contains("none recorded"));
    press(&mut screen, KeyCode::Tab);
    assert_eq!(screen.want().chosen, None);
}

#[test]
fn help_covers_the_screen_until_a_key_is_pressed() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('?'));
    assert!(shown(&mut screen, 80, 24).join("\n").contains("filter, as you type"));
    press(&mut screen, KeyCode::Char('q'));
    assert!(!screen.is_over(), "that key closed the help");
    assert!(!shown(&mut screen, 80, 24).join("\n").contains("filter, as you type"));
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
fn a_service_that_refuses_ends_it() {
    let mut screen = screen();
    screen.take(Err(Failure::new(NO_PERMISSION, "refused")));
    assert!(screen.is_over());
    let failure = screen.failed().unwrap();
    assert_eq!((failure.code, &*failure.text), (NO_PERMISSION, "refused"));
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
