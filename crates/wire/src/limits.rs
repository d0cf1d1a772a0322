//! Bounds on what a peer may send, and the two versions of RESP.

/// How large a frame may be. Beyond it the connection ends, before anything is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Bytes of one frame: a command, an event, a reply.
    pub frame: usize,
    /// Arguments of one command, with its name.
    pub args: usize,
}

impl Default for WireLimits {
    fn default() -> Self {
        Self { frame: 1 << 20, args: 1024 }
    }
}

/// The version of the protocol of nodes that this crate speaks, agreed by `HELLO ... LOCKSPAN`. A
/// later one may add fields to the end of messages; a reader passes over those that it does not
/// know.
///
/// | version | what is new |
/// |---|---|
/// | 1 | what a node speaks that names none in `HELLO` |
/// | 2 | an extension names its groups, `recovered` names the former session; `nothing`, `moved` |
pub const NODE_PROTOCOL: u32 = 2;

/// Which RESP a connection speaks: 2 until it says `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// No maps, no pushes: maps are flattened, events need the channel of a subscription.
    #[default]
    Resp2,
    /// Maps, booleans, null, and pushes between replies.
    Resp3,
}
