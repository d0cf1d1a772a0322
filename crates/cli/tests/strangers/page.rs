//! `docs/wire.md` as a list of blocks.

/// What the page writes before a command.
pub(crate) const PROMPT: &str = "127.0.0.1:7420> ";

/// The page as it is now.
pub(crate) fn text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.md");
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// Something between two fences.
#[derive(Debug)]
pub(crate) struct Block {
    /// The word beside the fence.
    pub(crate) kind: String,
    /// Where its first line is in the page.
    pub(crate) line: usize,
    pub(crate) lines: Vec<String>,
}

/// A command and what is shown as its reply.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) reply: Vec<String>,
}

/// Every block of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(page.lines()) {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(kind), None) => {
                let kind = kind.trim().to_owned();
                open = Some(Block { kind, line: number + 1, lines: Vec::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    if let Some(block) = open {
        panic!("docs/wire.md:{}: the block has no end", block.line);
    }
    blocks
}

impl Block {
    /// The commands of a console with their replies.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        let mut exchanges: Vec<Exchange> = Vec::new();
        for (line, text) in (self.line..).zip(&self.lines) {
            if let Some(command) = text.strip_prefix(PROMPT) {
                let command = command.to_owned();
                exchanges.push(Exchange { line, command, reply: Vec::new() });
            } else if let Some(last) = exchanges.last_mut() {
                last.reply.push(text.clone());
            } else {
                panic!("docs/wire.md:{line}: {text:?} is the reply to nothing");
            }
        }
        exchanges
    }
}
