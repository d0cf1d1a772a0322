//! `top` on a screen that is not there.

use std::time::{Duration, Instant};

use lockspan_wire::Value;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::look::{Counts, Seen, Session, counts};
use super::screen::Screen;
use crate::exit::{Failure, UNAVAILABLE};
use crate::locks::{Claim, Locked};

fn claim(session: &str, mode: &str, token: Option<&str>) -> Claim {
    let owned = |text: &str| text.to_owned();
    Claim { session: owned(session), mode: owned(mode), token: token.map(owned), revoked: None }
}

fn locked(name: &str, state: &str, waiters: usize) -> Locked {
    Locked {
        name: name.to_owned(),
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
        lease_ms: 10_000,
        left_ms,
        connections: 1,
    };
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
    }
}

fn screen() -> Screen {
    let mut screen = Screen::new("lockspan://127.0.0.1:7420".to_owned(), None);
    let now = Instant::now();
    screen.take(Ok(seen(100, now)));
    screen.take(Ok(seen(600, now + Duration::from_secs(2))));
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
    let lines = shown(&mut screen(), 110, 24);
    assert!(lines[0].starts_with("lockspan lockspan://127.0.0.1:7420"), "{lines:#?}");
    assert!(lines[1].contains("3 records  2 sessions"), "{lines:#?}");
    assert!(lines[1].contains("per second: 250 grants"), "{lines:#?}");
    assert!(lines[2].contains("Records: 3 of all, by waiters ▼"), "{lines:#?}");
    assert!(lines[4].contains("order:7") && lines[4].contains("alone-wanted"), "{lines:#?}");
    let whole = lines.join("\n");
    assert!(whole.contains("Waiting (6)") && whole.contains("and 2 more"), "{whole}");
    assert!(whole.contains("W 4711 token 1099511627777"), "{whole}");
}

#[test]
fn records_are_sorted_and_reversed() {
    let mut screen = screen();
    assert_eq!(names(&mut screen), ["order:7", "order:8", "invoice:42"]);
    press(&mut screen, KeyCode::Char('r'));
    assert_eq!(names(&mut screen), ["invoice:42", "order:8", "order:7"]);
    press(&mut screen, KeyCode::Char('r'));
    press(&mut screen, KeyCode::Char('s'));
    press(&mut screen, KeyCode::Char('s'));
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
    assert_eq!(screen.pattern(), None, "not yet");
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.pattern().as_deref(), Some("*q*"));
    press(&mut screen, KeyCode::Char('/'));
    press(&mut screen, KeyCode::Char('*'));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.pattern().as_deref(), Some("*q*"), "it is as it was");
    assert!(!screen.is_over());
}

#[test]
fn sessions_have_a_list_of_their_own() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Tab);
    let lines = shown(&mut screen, 80, 20);
    assert!(lines[2].contains("Sessions: 2 of all, by id"), "{lines:#?}");
    assert!(lines[4].contains('9') && lines[4].contains("0.5 s"), "{lines:#?}");
    assert!(lines[5].contains("4711") && lines[5].contains("9.0 s"), "{lines:#?}");
}

#[test]
fn help_covers_the_screen_until_a_key_is_pressed() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('?'));
    assert!(shown(&mut screen, 80, 24).join("\n").contains("filter records by name"));
    press(&mut screen, KeyCode::Char('q'));
    assert!(!screen.is_over(), "that key closed the help");
    assert!(!shown(&mut screen, 80, 24).join("\n").contains("filter records by name"));
    press(&mut screen, KeyCode::Char('q'));
    assert!(screen.is_over());
}

#[test]
fn a_pause_keeps_what_is_shown() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('p'));
    screen.take(Ok(Seen::default()));
    assert_eq!(names(&mut screen).len(), 3);
    assert!(shown(&mut screen, 80, 20)[0].contains("[paused]"));
    press(&mut screen, KeyCode::Char('p'));
    screen.take(Ok(Seen::default()));
    assert_eq!(names(&mut screen).len(), 0);
}

#[test]
fn any_size_can_be_drawn() {
    let mut screen = screen();
    for (width, height) in [(1, 1), (10, 3), (20, 5), (40, 8), (300, 100)] {
        for code in [KeyCode::Char('?'), KeyCode::Tab, KeyCode::Tab, KeyCode::End, KeyCode::PageUp]
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
