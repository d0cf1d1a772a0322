//! What happened, for people: a line an event, or a diagram of the messages. Written only when
//! asked for.

use std::fmt::Write as _;

use crate::words::Machine;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is on its way.
    Sent,
    /// It will never arrive.
    Lost,
    /// It is here.
    Arrived,
}

/// One line.
#[derive(Clone, Debug)]
enum Line {
    Message { at: u64, from: Machine, to: Machine, fate: Fate, text: String },
    Note { at: u64, at_machine: Option<Machine>, text: String },
}

/// The lines so far, if they are kept.
#[derive(Debug, Default)]
pub(crate) struct Log {
    on: bool,
    lines: Vec<Line>,
}

impl Log {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, lines: Vec::new() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Something happens at a machine, or to the world.
    pub(crate) fn note(
        &mut self,
        at: u64,
        at_machine: Option<Machine>,
        text: impl FnOnce() -> String,
    ) {
        if self.on {
            self.lines.push(Line::Note { at, at_machine, text: text() });
        }
    }

    /// A message goes from one machine to another.
    pub(crate) fn message(
        &mut self,
        at: u64,
        (from, to): (Machine, Machine),
        fate: Fate,
        text: impl FnOnce() -> String,
    ) {
        if self.on {
            self.lines.push(Line::Message { at, from, to, fate, text: text() });
        }
    }

    /// A line an event.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let (at, what) = match line {
                Line::Note { at, at_machine: None, text } => (at, format!("== {text}")),
                Line::Note { at, at_machine: Some(machine), text } => {
                    (at, format!("{machine}: {text}"))
                }
                Line::Message { at, from, to, fate, text } => {
                    let arrow = match fate {
                        Fate::Sent => "--",
                        Fate::Lost => "-x",
                        Fate::Arrived => "->",
                    };
                    (at, format!("{from} {arrow} {to}: {text}"))
                }
            };
            writeln!(text, "{:>4}.{:06}  {what}", at / 1_000_000, at % 1_000_000)
                .expect("a string takes every line");
        }
        text
    }

    /// The last `limit` messages and notes as a Mermaid sequence diagram.
    pub(crate) fn mermaid(&self, limit: usize) -> String {
        let shown: Vec<String> = self.lines.iter().filter_map(mermaid_line).collect();
        let skipped = shown.len().saturating_sub(limit);
        let mut text = String::from("sequenceDiagram\n");
        if skipped > 0 {
            text += &format!("    %% {skipped} earlier lines are left out\n");
        }
        for line in &shown[skipped..] {
            text += "    ";
            text += line;
            text.push('\n');
        }
        text
    }
}

fn mermaid_line(line: &Line) -> Option<String> {
    let clean = |text: &str| text.replace(';', ",").replace('#', "no ");
    match line {
        Line::Message { fate: Fate::Sent, .. } => None,
        Line::Message { from, to, fate, text, .. } => {
            let arrow = if *fate == Fate::Lost { "-x" } else { "->>" };
            Some(format!("{}{arrow}{}: {}", from.id(), to.id(), clean(text)))
        }
        Line::Note { at_machine, text, .. } => {
            let machine = at_machine.unwrap_or(Machine::Server(0));
            Some(format!("Note over {}: {}", machine.id(), clean(text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_when_it_is_off() {
        let mut log = Log::new(false);
        log.note(1, None, || unreachable!("the text is not made"));
        assert_eq!(log.text(), "");
    }

    #[test]
    fn a_diagram_shows_what_arrived_and_what_was_lost() {
        let mut log = Log::new(true);
        let (node, server) = (Machine::Node(1), Machine::Server(0));
        log.message(1, (node, server), Fate::Sent, || "acquire".to_owned());
        log.message(2, (node, server), Fate::Arrived, || "acquire #3".to_owned());
        log.message(3, (server, node), Fate::Lost, || "granted".to_owned());
        log.note(4, Some(node), || "crashes".to_owned());
        let lines = ["n1->>s0: acquire no 3", "s0-xn1: granted", "Note over n1: crashes"];
        let expected = lines.map(|line| format!("    {line}\n")).concat();
        assert_eq!(log.mermaid(9), format!("sequenceDiagram\n{expected}"));
        assert!(log.mermaid(1).contains("%% 2 earlier lines"));
        assert!(log.text().contains("   0.000003  server 0 -x node 1: granted\n"));
    }
}
