//! Who may ask: a browser that was sent here by its user, and not by the page of somebody else.
//!
//! A page of another host can let its name stand for this machine (DNS rebinding), or send requests
//! in its user's name. The first shows in `Host`, the second in `Origin` and `Sec-Fetch-Site`.

use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, StatusCode};

use super::Site;

/// Why not.
pub(super) type Refused = (StatusCode, String);

/// Whether the request may be answered.
pub(super) fn check<B>(site: &Site, request: &Request<B>) -> Result<(), Refused> {
    let headers = request.headers();
    let hosts = site.hosts();
    let host = one(headers, header::HOST.as_str())?;
    if !host.is_some_and(|host| hosts.iter().any(|known| known.eq_ignore_ascii_case(host))) {
        let host = host.unwrap_or_default();
        let why = format!("this server is {}, not {host:?}: use that address", hosts[0]);
        return Err((StatusCode::MISDIRECTED_REQUEST, why));
    }
    // A request may name the whole address, as for a proxy: then that is what it is for.
    let named = request.uri().authority().map(|named| named.as_str());
    if named.is_some_and(|named| host != Some(named)) {
        let why = "the URL and the Host header name different hosts".to_owned();
        return Err((StatusCode::BAD_REQUEST, why));
    }
    let is_ours = |origin: &str| {
        let host = origin.strip_prefix("http://");
        host.is_some_and(|host| hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
    };
    let origin = one(headers, header::ORIGIN.as_str())?;
    let site_of = one(headers, "sec-fetch-site")?;
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let is_foreign = origin.is_some_and(|origin| !is_ours(origin))
        || site_of.is_some_and(|site| !["same-origin", "none"].contains(&site))
        || (!reads && origin.is_none());
    // A link on another page may lead here; it may not read what it finds.
    let is_link = request.uri().path() == "/" && reads && origin.is_none();
    if is_foreign && !is_link {
        let why = "this request comes from another web site; only requests of this server's own \
                   page are answered";
        return Err((StatusCode::FORBIDDEN, why.to_owned()));
    }
    Ok(())
}

/// The value of a header that may be there once.
pub(super) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refused> {
    let bad = |why: &str| (StatusCode::BAD_REQUEST, format!("{name}: {why}"));
    let mut all = headers.get_all(name).iter();
    let first = all.next().map(|value| value.to_str()).transpose();
    let first = first.map_err(|_| bad("it has invalid bytes"))?;
    if all.next().is_some() {
        return Err(bad("it is given more than once"));
    }
    Ok(first)
}
