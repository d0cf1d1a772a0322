//! Passwords that come over HTTP, and what is left of them in memory.
//!
//! A request is in buffers that hyper reads into. One that hyper goes on to use is overwritten when
//! the connection ends, see [`serve_and_wipe`], which is why the answer to a login ends it; one
//! that hyper has done with is overwritten with the [`SecretBody`] that holds it. What the JSON
//! says is in [`Wiped`]. What can't be reached is a connection that is cut in the middle of a
//! request, and a copy that the JSON parser makes of a password with a `"` or a `\\` in it.

use std::error::Error;
use std::ops::Deref;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use lockspan_wire::wipe;
use serde_json::Value;
use zeroize::{Zeroize as _, Zeroizing};

/// What a request says, overwritten when it is dropped.
#[derive(Debug)]
pub(super) struct Wiped(pub(super) Value);

impl Deref for Wiped {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe_value(&mut self.0);
    }
}

fn wipe_value(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(all) => all.iter_mut().for_each(wipe_value),
        Value::Object(all) => all.values_mut().for_each(wipe_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The body of a request. What it came in is overwritten when this is dropped, if nobody else holds
/// a part of it then: so the head of the request, which may lie beside it, is to be dropped before.
#[derive(Debug)]
pub(super) struct SecretBody {
    whole: Zeroizing<Vec<u8>>,
    parts: Vec<Bytes>,
}

impl SecretBody {
    pub(super) async fn read(
        body: Incoming,
        most: usize,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut body = Limited::new(body, most);
        let mut read = Self { whole: Zeroizing::default(), parts: Vec::new() };
        while let Some(frame) = body.frame().await {
            read.parts.extend(frame?.into_data());
        }
        // One that grows would leave its old content behind.
        read.whole = Vec::with_capacity(read.parts.iter().map(Bytes::len).sum()).into();
        read.parts.iter().for_each(|part| read.whole.extend_from_slice(part));
        Ok(read)
    }
}

impl Deref for SecretBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole
    }
}

impl Drop for SecretBody {
    fn drop(&mut self) {
        self.parts.drain(..).for_each(wipe_bytes);
    }
}

/// Overwrites the memory of these bytes, unless it is that of a buffer that hyper goes on to use.
fn wipe_bytes(bytes: Bytes) {
    if let Ok(mut bytes) = bytes.try_into_mut() {
        wipe(&mut bytes);
    }
}

/// Serves a connection to its end, and gives back its socket. The buffer that it was read into is
/// overwritten.
pub(super) async fn serve_and_wipe<I, S, B>(connection: http1::Connection<I, S>) -> Option<I>
where
    I: Read + Write + Unpin,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // A browser that goes in the middle of something is nobody's mistake.
    let parts = connection.without_shutdown().await.ok()?;
    wipe_bytes(parts.read_buf);
    Some(parts.io)
}
