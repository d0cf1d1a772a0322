//! What a response is made of: bytes that are there, or events that come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use super::places::Answering;

/// Nothing of another host is loaded, nothing may frame the page, no script is in its text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The body of a response.
#[derive(Debug)]
pub(super) struct Content {
    what: What,
    /// Dropped with the body, when the connection has taken all of it.
    answering: Option<Answering>,
}

#[derive(Debug)]
enum What {
    /// All of it.
    Whole(Option<Bytes>),
    /// Parts, until the sender is gone.
    Parts(mpsc::Receiver<Bytes>),
}

impl Content {
    /// Bytes that are there.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { what: What::Whole(Some(bytes.into())), answering: None }
    }

    /// Parts that come.
    pub(super) fn parts(parts: mpsc::Receiver<Bytes>) -> Self {
        Self { what: What::Parts(parts), answering: None }
    }

    /// Keeps this until the connection has taken all of the body.
    pub(super) fn keep(&mut self, answering: Answering) {
        self.answering = Some(answering);
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = match &mut self.what {
            What::Whole(bytes) => Poll::Ready(bytes.take()),
            What::Parts(parts) => parts.poll_recv(context),
        };
        part.map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.what, What::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.what {
            What::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            What::Parts(_) => SizeHint::default(),
        }
    }
}

/// A response with this content; it is not kept by anybody.
pub(super) fn response(
    status: StatusCode,
    kind: &'static str,
    content: Content,
) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Text as it is.
pub(super) fn text(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Bytes>,
) -> Response<Content> {
    response(status, kind, Content::whole(text))
}

/// A sentence for a person.
pub(super) fn sentence(status: StatusCode, words: &str) -> Response<Content> {
    text(status, "text/plain; charset=utf-8", format!("{words}\n"))
}

/// JSON.
pub(super) fn json(status: StatusCode, value: &serde_json::Value) -> Response<Content> {
    text(status, "application/json", value.to_string())
}

/// Why something is not done, as JSON with an `error`.
pub(super) fn refusal(status: StatusCode, why: &str) -> Response<Content> {
    json(status, &serde_json::json!({ "error": why }))
}
