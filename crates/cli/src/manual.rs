//! The manual pages, from the help of the commands: options by `clap_mangen`, the other sections
//! from the text that follows the options in the help.
//!
//! A paragraph of that text that begins with one of [`HEADINGS`] is a section of the page; all
//! others belong to the description. What is the same for many commands, such as exit codes and
//! variables, is added here.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::Cli;

/// How paragraphs of the help begin, and the sections that they are, in the order of a page.
const HEADINGS: [(&str, &str); 5] = [
    ("Keys", "KEYS"),
    ("Exit codes", "EXIT STATUS"),
    ("Environment", "ENVIRONMENT"),
    ("Files", "FILES"),
    ("Examples", "EXAMPLES"),
];

/// The variables of commands that use a service.
const ENVIRONMENT: &str = "\
Read by lockspan itself:
  LOCKSPAN_URL            the service, if there is no --url
  LOCKSPAN_USER           the user name, if the URL has none
  LOCKSPAN_PASSWORD_FILE  a file with the password, or
  LOCKSPAN_PASSWORD       the password itself
  LOCKSPAN_CA             the trusted certificate authorities (PEM), for lockspans://
  LOCKSPAN_CERT           a client certificate (PEM), and
  LOCKSPAN_KEY            its private key (PEM)
  LOCKSPAN_BIN            the lockspan binary that is started for local:";

const EXIT_STATUS: &str = "  0   success
  64  wrong arguments
  69  service unavailable, or it refused the request
  70  unexpected reply of the service
  71  error of the operating system
  77  login failed, or a right is missing";

const EXIT_STATUS_OF_TAKE_BACK: &str =
    "  0   given back, or asked for by a user who may not inspect it
  64  wrong arguments
  69  service unavailable, or it refused: nobody holds the record, or others wait for it already
  70  unexpected reply of the service
  71  error of the operating system
  75  not given back in time
  77  login failed, or a right is missing";

const EXIT_STATUS_OF_SERVE: &str = "  0   stopped by a signal, or after it was idle (--idle-exit)
  64  wrong arguments
  71  error of the operating system
  78  an option, a file or an address can't be used
  128 + n: a second signal n stopped it at once";

const EXIT_STATUS_OF_OTHERS: &str = "  0   success
  64  wrong arguments
  71  error of the operating system";

const FILES: &str =
    "  ~/.local/state/lockspan/       socket, data and log of the service for local:
  /var/lib/lockspan-local/UID/   the same, instead, if root has made this directory";

/// A page, and the name of its file.
pub(crate) struct Page {
    pub(crate) file: String,
    pub(crate) text: Vec<u8>,
}

/// The page of the program, then one for each command.
pub(crate) fn pages() -> io::Result<Vec<Page>> {
    // There is no page about help.
    let mut cli = Cli::command().disable_help_subcommand(true);
    cli.build();
    let commands = cli.get_subcommands().cloned().collect::<Vec<_>>();
    let names: Vec<String> = [&cli].into_iter().chain(&commands).map(page_name).collect();
    [&cli].into_iter().chain(&commands).map(|command| page(command, &names)).collect()
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn page(command: &Command, names: &[String]) -> io::Result<Page> {
    let name = page_name(command);
    let version = concat!("lockspan ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(&name).source(version).manual("Lockspan");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    section("SYNOPSIS", usage, &mut text);
    let (description, mut sections) = parts(command);
    man.render_description_section(&mut text)?;
    for paragraph in description {
        text.extend_from_slice(b".PP\n");
        body(&paragraph, &mut text);
    }
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    for (heading, common) in common(command) {
        match sections.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, own)) if !own.is_empty() => own.push_str(&format!("\n\n{common}")),
            Some((_, own)) => common.clone_into(own),
            None => {}
        }
    }
    for (heading, own) in sections.iter().filter(|(_, own)| !own.is_empty()) {
        section(heading, own, &mut text);
    }
    let others = names.iter().filter(|other| **other != name);
    let others: Vec<_> = others.map(|other| format!("{other}(1)")).collect();
    section("SEE ALSO", &others.join(", "), &mut text);
    Ok(Page { file: format!("{name}.1"), text })
}

/// What the help says after the options: paragraphs of the description, and sections.
fn parts(command: &Command) -> (Vec<String>, Vec<(&'static str, String)>) {
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut sections: Vec<_> = HEADINGS.map(|(_, name)| (name, String::new())).into();
    let mut description = Vec::new();
    for paragraph in help.split("\n\n") {
        let at = HEADINGS.iter().position(|(begin, _)| paragraph.starts_with(begin));
        let Some(at) = at else {
            description.push(paragraph.to_owned());
            continue;
        };
        // "Keys:" says no more than the heading does; "Environment of the command:" does.
        let rest = paragraph.strip_prefix(&format!("{}:", HEADINGS[at].0)).unwrap_or(paragraph);
        // Lines below the heading keep their indent.
        let text = rest.strip_prefix('\n').unwrap_or_else(|| rest.trim_start());
        sections[at].1 = capitalized(text);
    }
    (description, sections)
}

/// What followed the name of a section is a sentence of its own on the page.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Sections that many pages have.
fn common(command: &Command) -> Vec<(&'static str, &'static str)> {
    let exit = |text| ("EXIT STATUS", text);
    match command.get_name() {
        // It has its exit codes in its help.
        "run" => vec![("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)],
        "take-back" => {
            let exit = exit(EXIT_STATUS_OF_TAKE_BACK);
            vec![exit, ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)]
        }
        "serve" => vec![exit(EXIT_STATUS_OF_SERVE), ("FILES", FILES)],
        "passwd" | "completions" | "man" => vec![exit(EXIT_STATUS_OF_OTHERS)],
        _ => vec![exit(EXIT_STATUS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)],
    }
}

fn section(heading: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!(".SH \"{heading}\"\n").as_bytes());
    for (number, paragraph) in text.split("\n\n").enumerate() {
        if number > 0 {
            out.extend_from_slice(b".PP\n");
        }
        body(paragraph, out);
    }
}

/// Lines that are set in, as examples and tables are, keep their breaks; others are filled.
fn body(paragraph: &str, out: &mut Vec<u8>) {
    let mut kept = false;
    for line in paragraph.lines() {
        let keep = line.starts_with(' ');
        if keep != kept {
            out.extend_from_slice(if keep { b".nf\n" } else { b".fi\n" });
            kept = keep;
        }
        out.extend_from_slice(escaped(line).as_bytes());
        out.push(b'\n');
    }
    if kept {
        out.extend_from_slice(b".fi\n");
    }
}

/// A line as roff takes it.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(String, String)> {
        let pages = pages().expect("it is written to memory");
        let text = |page: Page| (page.file, String::from_utf8(page.text).expect("text"));
        pages.into_iter().map(text).collect()
    }

    #[test]
    fn every_page_has_the_usual_sections_and_no_others() {
        for (file, text) in all() {
            let sections: Vec<_> = text.lines().filter(|line| line.starts_with(".SH")).collect();
            let has =
                |name: &str| sections.iter().any(|line| line.trim_matches('"').ends_with(name));
            for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
                assert!(has(section), "{file} has no {section}: {sections:?}");
            }
            let uses_service = !["passwd", "completions", "man"].iter().any(|it| file.contains(it));
            for section in ["ENVIRONMENT", "FILES"] {
                assert_eq!(has(section), uses_service, "{file}: {section}");
            }
            assert!(!has("EXTRA") && !text.contains("lockspan\\-help"), "{file}");
            assert!(text.contains("\"lockspan 0."), "{file} says its version");
        }
    }

    #[test]
    fn a_page_names_only_pages_that_there_are() {
        let all = all();
        for (file, text) in &all {
            let text = text.replace("\\-", "-");
            for at in text.match_indices("(1)").map(|(at, _)| at) {
                let begin = text[..at].rfind([' ', '\n', ',']).map_or(0, |found| found + 1);
                let named = format!("{}.1", &text[begin..at]);
                assert!(all.iter().any(|(other, _)| *other == named), "{file} names {named}");
            }
        }
    }

    #[test]
    fn a_list_begins_with_its_first_line() {
        let serve = all().into_iter().find(|(file, _)| file == "lockspan-serve.1").expect("it");
        assert!(serve.1.contains(".SH \"EXIT STATUS\"\n.nf\n  0   stopped"), "{}", serve.1);
        assert!(serve.1.contains(".SH \"ENVIRONMENT\"\nEach option can"), "{}", serve.1);
    }

    #[test]
    fn a_synopsis_is_what_one_types() {
        let page = |name: &str| all().into_iter().find(|(file, _)| file == name).expect("a page").1;
        let run = "lockspan run [OPTIONS] <RECORD> [\\-\\-] <COMMAND> [ARGUMENTS]...";
        assert!(page("lockspan-run.1").contains(run));
        assert!(page("lockspan-locks.1").contains("lockspan locks [OPTIONS] [PATTERN]"));
    }

    #[test]
    fn lines_that_are_set_in_keep_their_breaks() {
        let mut out = Vec::new();
        body("A 'text'.\n  one -x\n  .two\nMore.", &mut out);
        let expected = "A \\(aqtext\\(aq.\n.nf\n  one \\-x\n  .two\n.fi\nMore.\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
