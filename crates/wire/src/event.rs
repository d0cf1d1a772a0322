//! What a server tells a session outside of replies.

use bytes::BytesMut;
use lockspan_protocol::{SessionId, SessionRefusal, ToNode};

use crate::error::WireError;
use crate::limits::{Protocol, WireLimits};
use crate::value::Value;

/// What a server tells a session outside of replies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// A message of the protocol.
    Node(ToNode),
    /// The session that `LS.TELL ... open` asked for is refused.
    NotOpened(SessionRefusal),
    /// The server is about to stop: connect again. Leases go on.
    Stopping,
}

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStyle {
    /// `>N lockspan <session> <kind> ...`: RESP3 only.
    Push,
    /// `message lockspan:<session> <text>`, as a subscription's message: a push of RESP3, or the
    /// array of RESP2.
    Message(Protocol),
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromServer {
    /// An event of a session, in either style.
    Event {
        /// Of which session.
        session: SessionId,
        /// What.
        event: Event,
    },
    /// A reply, or a push that is not ours.
    Value(Value),
}

/// Writes an event to the end of `out`.
pub fn put_event(session: SessionId, event: &Event, style: EventStyle, out: &mut BytesMut) {
    let _ = (session, event, style, out);
    unimplemented!("comes with the next commit")
}

/// Takes the next event or reply from `buf`, RESP3. `None`: it is not all there yet, and nothing
/// was taken.
pub fn take_from_server(
    buf: &mut BytesMut,
    limits: &WireLimits,
) -> Result<Option<FromServer>, WireError> {
    let _ = (buf, limits);
    unimplemented!("comes with the next commit")
}
