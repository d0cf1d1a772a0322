//! Who we are in Redis: `<label>:<128 random bits>:<counter>` for each lock.
//!
//! A person who looks at a key sees which program it is: the label is that of the node, with a `-`
//! for every character that is not allowed here. Nobody can guess another's identifier, and
//! none is used twice.

use lockspan_client::ConnectError;

/// A node in Redis.
#[derive(Debug)]
pub(crate) struct Identity {
    /// `<label>:<128 random bits>:`
    prefix: String,
    /// Where others leave word for it.
    pub(crate) channel: String,
}

/// Where all nodes hear what would have to be told to too many.
pub(crate) const ALL: &str = "lockspan:all";

/// The longest name that is kept.
const NAME: usize = 64;

impl Identity {
    pub(crate) fn draw(name: &str) -> Result<Self, ConnectError> {
        let mut drawn = [0; 16];
        getrandom::fill(&mut drawn).map_err(|why| ConnectError::Local {
            what: format!("the system has no random numbers: {why}"),
        })?;
        Ok(Self::new(name, u128::from_ne_bytes(drawn)))
    }

    fn new(name: &str, drawn: u128) -> Self {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || "-_.@[]".contains(c) { c } else { '-' };
        let name: String = name.chars().take(NAME).map(plain).collect();
        let name = if name.is_empty() { "lockspan" } else { &name };
        Self { prefix: format!("{name}:{drawn:032x}:"), channel: format!("lockspan:{drawn:032x}") }
    }

    /// The label in an identifier, and the channel of its node. An identifier that is not one of
    /// ours is a label as a whole, and nobody hears on a channel.
    pub(crate) fn of(identifier: &str) -> (&str, Option<String>) {
        let ours = || {
            let (rest, count) = identifier.rsplit_once(':')?;
            let (label, node) = rest.rsplit_once(':')?;
            let is_node = node.len() == 32 && node.bytes().all(|it| it.is_ascii_hexdigit());
            let is_ours = is_node && count.bytes().all(|it| it.is_ascii_digit());
            is_ours.then(|| (label, Some(format!("lockspan:{node}"))))
        };
        ours().unwrap_or((identifier, None))
    }

    /// The identifier of our lock with this number.
    pub(crate) fn identifier(&self, count: u64) -> String {
        format!("{}{count}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_names_the_node_and_a_counter() {
        let node = Identity::new("billing 7:^", 0xabc);
        let hex = "00000000000000000000000000000abc";
        assert_eq!(node.identifier(12), format!("billing-7--:{hex}:12"));
        assert_eq!(node.channel, format!("lockspan:{hex}"));
        assert_eq!(Identity::of(&node.identifier(12)), ("billing-7--", Some(node.channel)));
        assert_eq!(Identity::of("ann"), ("ann", None));
        assert_eq!(Identity::of("a:b:1"), ("a:b:1", None));
        assert_eq!(Identity::new("", 1).prefix, format!("lockspan:{:032x}:", 1));
    }
}
