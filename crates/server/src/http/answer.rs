//! A request and its answer.

use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use super::content::{Content, json as as_json, refusal, sentence, text};
use super::guard::{self, Refused};
use super::places::{Answering, Place};
use super::query::Query;
use super::wiped::{SecretBody, Wiped};
use super::{Site, actions, api, live, prometheus};

/// The longest body of a request.
const BODY: usize = 16 << 10;

/// The files of the page.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
    ("/views.js", "text/javascript; charset=utf-8", include_str!("page/views.js")),
    ("/parts.js", "text/javascript; charset=utf-8", include_str!("page/parts.js")),
    ("/graph.js", "text/javascript; charset=utf-8", include_str!("page/graph.js")),
    ("/draw.js", "text/javascript; charset=utf-8", include_str!("page/draw.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

pub(super) async fn answer(
    site: &Arc<Site>,
    place: &Arc<Place>,
    request: Request<Incoming>,
) -> Response<Content> {
    let is_api = request.uri().path().starts_with("/api/");
    let is_login = request.uri().path() == "/api/login";
    let mut response = match route(site, place, request).await {
        Ok(response) => response,
        Err((status, why)) if is_api => refusal(status, &why),
        Err((status, why)) => sentence(status, &why),
    };
    if is_login {
        // The password is in the buffer of the connection, see `wiped`.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let methods = if is_api { "GET, HEAD, POST" } else { "GET, HEAD" };
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    }
    if site.places.are_scarce() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.body_mut().keep(Answering(Arc::clone(place)));
    response
}

async fn route(
    site: &Arc<Site>,
    place: &Place,
    request: Request<Incoming>,
) -> Result<Response<Content>, Refused> {
    guard::check(site, &request)?;
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    match head.method {
        Method::GET | Method::HEAD => {}
        Method::POST if path.starts_with("/api/") => {
            let body = read(&head.headers, body).await?;
            place.asks();
            let answer = match serde_json::from_slice(&body).map(Wiped) {
                Ok(said) => actions::act(site, &head, &said).await,
                Err(why) => Err((StatusCode::BAD_REQUEST, format!("the body is not JSON: {why}"))),
            };
            // In this order: what the two lie in together can be overwritten then.
            drop(head);
            drop(body);
            return answer;
        }
        _ => {
            return Err((
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are allowed here".to_owned(),
            ));
        }
    }
    if let Some((_, kind, content)) = FILES.iter().find(|(known, ..)| *known == path) {
        return Ok(text(StatusCode::OK, kind, *content));
    }
    place.asks();
    let query = Query::read(head.uri.query());
    let login = site.login(&head.headers, &query);
    if login.is_some() {
        place.is_logged_in();
    }
    let may_look = login.is_some() || !site.operators.look_needs_login();
    let look = || {
        may_look.then_some(()).ok_or_else(|| (StatusCode::UNAUTHORIZED, "log in first".to_owned()))
    };
    match path {
        "/healthz" => Ok(match site.pulse.check(Instant::now()) {
            Ok(()) => sentence(StatusCode::OK, "ok"),
            Err(why) => sentence(StatusCode::SERVICE_UNAVAILABLE, &why),
        }),
        "/readyz" => Ok(match site.readiness() {
            Ok(()) => sentence(StatusCode::OK, "ready"),
            Err(why) => sentence(StatusCode::SERVICE_UNAVAILABLE, why),
        }),
        "/metrics" => Ok(text(StatusCode::OK, prometheus::KIND, site.metrics(Instant::now()))),
        "/api/who" => Ok(as_json(StatusCode::OK, &actions::who(site, login.as_ref()))),
        "/api/view" => {
            look()?;
            Ok(as_json(StatusCode::OK, &api::view(site, &query, login.is_some()).await?))
        }
        "/api/samples" => {
            look()?;
            let (number, samples) = site.samples.after(0);
            Ok(as_json(StatusCode::OK, &json!({ "last": number, "samples": samples })))
        }
        "/api/live" => {
            look()?;
            live::stream(site, query, login).await
        }
        _ => Err((StatusCode::NOT_FOUND, format!("not found: {path}"))),
    }
}

/// The body of a request, which is to be JSON: a form of another page can't be of this type without
/// asking first.
async fn read(headers: &hyper::HeaderMap, body: Incoming) -> Result<SecretBody, Refused> {
    let kind = guard::one(headers, CONTENT_TYPE.as_str())?.unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        let why = "the body must be application/json".to_owned();
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let body = tokio::time::timeout(super::PATIENCE, SecretBody::read(body, BODY)).await;
    let late = |_| (StatusCode::REQUEST_TIMEOUT, "timeout: the body was not received".to_owned());
    body.map_err(late)?
        .map_err(|why| (StatusCode::PAYLOAD_TOO_LARGE, format!("the body can't be read: {why}")))
}
