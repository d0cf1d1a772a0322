//! What an operator does: log in and out, end a session, take back a record. Each leaves a line in
//! the log that says `audit:`.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::SET_COOKIE;
use hyper::http::request::Parts;
use lockspan_protocol::Record;
use lockspan_wire::{PublicId, Secret};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::Site;
use super::content::{Content, json as answer};
use super::guard::Refused;
use super::login::{Login, shown as name};
use super::wiped::Wiped;
use crate::service::{Service, Work};
use crate::users::Ends;

/// Who is logged in, and how one does.
pub(super) fn who(site: &Site, login: Option<&Login>) -> Value {
    let how = site.operators.how();
    let mut value = match login {
        Some(Login { user, may_act, .. }) => json!({ "user": user, "may_act": may_act }),
        None => json!({ "user": null }),
    };
    value["can_log_in"] = json!(how.is_ok());
    value["how"] = json!(how.unwrap_or_else(|why| why));
    value["look_needs_login"] = json!(site.operators.look_needs_login());
    value["version"] = json!(env!("CARGO_PKG_VERSION"));
    value["address"] = site.shared.addresses.iter().map(|at| json!(at.to_string())).collect();
    value
}

/// `POST /api/...`.
pub(super) async fn act(
    site: &Arc<Site>,
    head: &Parts,
    said: &Value,
) -> Result<hyper::Response<Content>, Refused> {
    let (path, headers) = (head.uri.path(), &head.headers);
    let word = |name: &str| {
        let why = || (StatusCode::BAD_REQUEST, format!("{name}: a string is required"));
        said[name].as_str().ok_or_else(why)
    };
    match path {
        "/api/login" => {
            let ends = head.extensions.get::<Ends>().copied();
            let password = Secret::copy(word("password")?.as_bytes());
            let new = site.log_in(ends, word("user")?, &password).await?;
            // Who was logged in here is not any more.
            site.log_out(headers);
            let Login { user, may_act, .. } = new.login;
            let value = Wiped(json!({ "user": user, "csrf": *new.csrf, "may_act": may_act }));
            Ok(with_cookie(&value, &new.cookie))
        }
        "/api/logout" => {
            // Only by the page's own script, as everything else; a login that is over is no matter.
            if site.has_login(headers) {
                site.by_page(headers)?;
            }
            Ok(with_cookie(&json!({ "user": null }), &site.log_out(headers)))
        }
        "/api/end-session" => {
            let login = site.actor(headers)?;
            let why = || "session: not the public id of a session".to_owned();
            let id = PublicId::read(word("session")?.as_bytes());
            end_session(site, &login, id.ok_or_else(|| (StatusCode::BAD_REQUEST, why()))?)
        }
        "/api/take-back" => {
            let login = site.actor(headers)?;
            let bytes: Vec<u8> = percent_decode_str(word("key")?).collect();
            let record = Record::parse(&bytes)
                .map_err(|why| (StatusCode::BAD_REQUEST, format!("key: {why}")))?;
            take_back(site, &login, record)
        }
        _ => Err((StatusCode::NOT_FOUND, "unknown action".to_owned())),
    }
}

fn with_cookie(value: &Value, cookie: &str) -> hyper::Response<Content> {
    let mut response = answer(StatusCode::OK, value);
    if let Ok(cookie) = cookie.parse() {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The session's lease is no longer renewed. Its node is told at once. What the session has becomes
/// free when the node has closed the session, or when the lease has expired.
fn end_session(
    site: &Site,
    login: &Login,
    id: PublicId,
) -> Result<hyper::Response<Content>, Refused> {
    let service = &site.shared.service;
    let mut work = Work::default();
    let ended = service.end_session(&name(&login.user), id, &mut work);
    service.finish(&mut work);
    work.dirty.flush();
    let left = ended.map_err(|why| (StatusCode::CONFLICT, why.text))?;
    let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    Ok(answer(StatusCode::OK, &json!({ "session": id.to_string(), "left": millis })))
}

/// Asks for the record as a writer would, and gives it back at once: so its holder is told, and
/// gives it up when it is done with it.
fn take_back(
    site: &Arc<Site>,
    login: &Login,
    record: Record,
) -> Result<hyper::Response<Content>, Refused> {
    let asked = Service::begin_taking_back(&site.shared, &name(&login.user), record, None)
        .map_err(|why| (StatusCode::CONFLICT, why))?;
    let millis = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
    Ok(answer(StatusCode::OK, &json!({ "asked": millis })))
}
