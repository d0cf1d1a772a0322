//! A page as a list of things to do: its command blocks, what they print, and the keys to press.
//!
//! | in the page | means |
//! |---|---|
//! | a comment `run: terminal=2` | the block `sh` after it is run in terminal 2, to its end |
//! | the same before a block `python` | it is a program that Python runs there |
//! | … `terminal=2,3` | in both |
//! | … `stays` | it goes on while later blocks run |
//! | … `look` | it only looks: repeat it until it prints what the page says, and succeeds |
//! | … `tty` | it needs a real terminal |
//! | a fence `text` after it | what it prints, see [`super::prints`] |
//! | a comment `terminal=2: Enter` | press that; then the block there ends |
//! | … `q, once it shows "x"` | the same, when `x` has been printed |
//! | … `ends` | the block there ends, because of what was done elsewhere |
//!
//! Readers of the page see none of these marks. Every other kind of block is an error, but for
//! those in [`NOT_COMMANDS`].

use anyhow::{Context as _, Result, bail, ensure};

/// Kinds of blocks that are no commands, and who looks after them.
const NOT_COMMANDS: [(&str, &str); 3] = [
    ("rust", "run by the documentation tests of the crate that includes the page"),
    ("rust,no_run", "compiled by the same"),
    (PYTHON, "without a mark: compiled by the tests of the Python package"),
];

const PYTHON: &str = "python";

/// Something to do, with the line of the page that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Run(Block),
    /// What the step before has printed.
    Prints(String),
    Press(Press),
}

/// Commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) terminals: Vec<u8>,
    pub(super) script: String,
    pub(super) stays: bool,
    pub(super) look: bool,
    pub(super) tty: bool,
}

/// A key, at a terminal whose block stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Press {
    pub(super) terminal: u8,
    pub(super) key: Key,
    pub(super) once: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Enter,
    Quit,
    Interrupt,
    /// None: it ends without.
    Nothing,
}

const NO_BLOCK: &str = "no block `sh` or `python` follows";

/// Reads a page.
pub(super) fn read(page: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    // How the next block is run, and the line that says so.
    let mut run: Option<(usize, &str)> = None;
    for (line, text) in (1..).zip(page.lines()) {
        match (&mut open, text.strip_prefix("```")) {
            (None, Some(kind)) => {
                if let Some((at, _)) = run {
                    let runs = kind == "sh" || kind == PYTHON;
                    ensure!(at + 1 == line && runs, "line {at}: {NO_BLOCK}");
                }
                open = Some((line, kind, String::new()));
            }
            (Some(_), Some(rest)) => {
                ensure!(rest.is_empty(), "line {line}: a fence inside of a block");
                let (line, kind, inside) = open.take().context("a fence that nobody opened")?;
                let run = run.take().map(|(_, words)| words);
                let what = block(kind, run, inside).with_context(|| format!("line {line}"))?;
                steps.extend(what.map(|what| Step { line, what }));
            }
            (Some((.., inside)), None) => {
                inside.push_str(text);
                inside.push('\n');
            }
            (None, None) => {
                if let Some((at, _)) = run {
                    bail!("line {at}: {NO_BLOCK}");
                }
                let comment = text.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                let comment = comment.unwrap_or_default();
                run = comment.strip_prefix("run: ").map(|words| (line, words));
                if let Some(words) = comment.strip_prefix("terminal=") {
                    let press = press(words).with_context(|| format!("line {line}"))?;
                    steps.push(Step { line, what: What::Press(press) });
                }
                ensure!(
                    !text.contains("```"),
                    "line {line}: a block that does not begin at the margin is not run"
                );
            }
        }
    }
    if let Some((line, ..)) = open {
        bail!("line {line}: the block has no end");
    }
    check_order(&steps)?;
    Ok(steps)
}

/// What is printed is printed by something.
fn check_order(steps: &[Step]) -> Result<()> {
    let mut before: Option<&What> = None;
    for step in steps {
        let lonely =
            matches!(step.what, What::Prints(_)) && matches!(before, None | Some(What::Prints(_)));
        ensure!(!lonely, "line {}: a text that no command before it prints", step.line);
        if let Some(What::Run(Block { look: true, .. })) = before {
            let told = matches!(step.what, What::Prints(_));
            ensure!(told, "line {}: the block before it looks for nothing", step.line);
        }
        before = Some(&step.what);
    }
    Ok(())
}

fn block(kind: &str, run: Option<&str>, inside: String) -> Result<Option<What>> {
    if run.is_none() && NOT_COMMANDS.iter().any(|(known, _)| *known == kind) {
        return Ok(None);
    }
    if kind == "text" {
        return Ok(Some(What::Prints(inside)));
    }
    let script = match kind {
        "sh" => inside,
        PYTHON => format!("python3 - <<'END_OF_PYTHON'\n{inside}END_OF_PYTHON\n"),
        _ => bail!("nobody knows how to run a block of the kind {kind:?}"),
    };
    let words = run.unwrap_or_default().split_whitespace();
    let mut block = Block { script, ..Block::default() };
    for word in words {
        match word {
            "stays" => block.stays = true,
            "look" => block.look = true,
            "tty" => block.tty = true,
            _ => {
                let numbers = word.strip_prefix("terminal=");
                let numbers = numbers.with_context(|| format!("unknown word {word:?}"))?;
                for number in numbers.split(',') {
                    block.terminals.push(number.parse().with_context(|| word.to_owned())?);
                }
            }
        }
    }
    ensure!(
        !block.terminals.is_empty(),
        "in which terminal? Write <!-- run: terminal=1 --> before it"
    );
    Ok(Some(What::Run(block)))
}

fn press(words: &str) -> Result<Press> {
    let (terminal, rest) = words.split_once(": ").context("terminal=N: KEY")?;
    let (key, once) = match rest.split_once(", once it shows ") {
        Some((key, once)) => (key, Some(once.trim_matches('"').to_owned())),
        None => (rest, None),
    };
    let key = match key {
        "Enter" => Key::Enter,
        "q" => Key::Quit,
        "Ctrl-C" => Key::Interrupt,
        "ends" => Key::Nothing,
        _ => bail!("{key:?} is not one of Enter, q, Ctrl-C, ends"),
    };
    Ok(Press { terminal: terminal.parse().with_context(|| terminal.to_owned())?, key, once })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_texts_and_keys_are_read_in_order() {
        let page = "a\n<!-- run: terminal=2,3 stays -->\n```sh\nx\n```\n```text\ny\n```\n\
                    <!-- terminal=2: q, once it shows \"y\" -->\n```rust\nfn f() {}\n```\n";
        let steps = read(page).unwrap();
        let block = Block {
            terminals: vec![2, 3],
            script: "x\n".to_owned(),
            stays: true,
            ..Block::default()
        };
        let press = Press { terminal: 2, key: Key::Quit, once: Some("y".to_owned()) };
        let whats = [What::Run(block), What::Prints("y\n".to_owned()), What::Press(press)];
        assert_eq!(steps.iter().map(|step| step.what.clone()).collect::<Vec<_>>(), whats);
        assert_eq!(steps.iter().map(|step| step.line).collect::<Vec<_>>(), [3, 6, 9]);
    }

    #[test]
    fn a_marked_block_of_python_is_a_program_and_an_unmarked_one_is_not_run() {
        let page = "```python\nunmarked\n```\n<!-- run: terminal=4 -->\n```python\nx\n```\n";
        let script = "python3 - <<'END_OF_PYTHON'\nx\nEND_OF_PYTHON\n".to_owned();
        let block = Block { terminals: vec![4], script, ..Block::default() };
        assert_eq!(read(page).unwrap(), [Step { line: 5, what: What::Run(block) }]);
    }

    #[test]
    fn nothing_is_skipped_in_silence() {
        for page in [
            "```console\n$ x\n```\n",
            "```sh\nx\n```\n",
            "```\nx\n```\n",
            "```sh terminal=1\nx\n```\n",
            "<!-- run: terminal=1 later -->\n```sh\nx\n```\n",
            "<!-- run: terminal=1 -->\n```sh\nx\n",
            "<!-- run: terminal=1 -->\n\n```sh\nx\n```\n",
            "<!-- run: terminal=1 -->\n```text\nx\n```\n",
            "<!-- run: terminal=1 -->\nx\n",
            "<!-- run: terminal=1 -->\n```rust\nx\n```\n",
            "<!-- run: terminal=1 -->\n- ```sh\n",
            "  ```sh\n  x\n  ```\n",
            "```text\nprinted by nobody\n```\n",
            "<!-- run: terminal=1 look -->\n```sh\nx\n```\n\
             <!-- run: terminal=1 -->\n```sh\ny\n```\n",
            "<!-- terminal=1: F1 -->\n",
        ] {
            assert!(read(page).is_err(), "{page}");
        }
    }
}
