//! What a node tells a server: the command `LS.TELL`.

use bytes::BytesMut;
use lockspan_protocol::{SessionId, ToServer};

/// Writes `LS.TELL <session> <verb> <fields...>` to the end of `out`.
pub fn put_tell(session: SessionId, message: &ToServer, out: &mut BytesMut) {
    let _ = (session, message, out);
    unimplemented!("comes with the next commit")
}
