//! Who has logged in: a cookie that scripts can't read, and a token that other pages can't.
//!
//! Neither is enough alone. A browser sends the cookies of a host to all its ports, so a server of
//! somebody else on this machine may get to see ours; the token is told once, to the page that
//! logs in, and pages of other ports don't get at what it keeps. Of both the server keeps hashes
//! alone: what is in its memory logs nobody in.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use blake2::Blake2s256;
use blake2::digest::Digest as _;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use lockspan_wire::Secret;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::Site;
use super::guard::{Refused, one};
use super::operators::Denied;
use super::query::Query;
use crate::audit::AUDIT;
use crate::seldom::Seldom;
use crate::users::Ends;

/// How long a login lasts.
pub(super) const LASTS: Duration = Duration::from_secs(3600);

/// Logins at a time; the oldest goes.
const MOST: usize = 64;

/// Where the page puts its token.
pub(super) const CSRF: &str = "x-lockspan-csrf";

/// The logins that there are.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// By the hashes of their cookies.
    known: Mutex<HashMap<Hash, Login>>,
    /// Logins that were refused, for the log.
    refused: Seldom,
    /// Requests that a login does not allow, for the log.
    not_allowed: Seldom,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) may_act: bool,
    id: Hash,
    csrf: Hash,
    until: Instant,
}

/// What stands for a cookie or a token, which have 256 random bits.
type Hash = [u8; 32];

fn hash(text: &[u8]) -> Hash {
    Blake2s256::digest(text).into()
}

/// A new one, with what its browser is told once.
#[derive(Debug)]
pub(super) struct NewLogin {
    pub(super) login: Login,
    /// The header that sets the cookie.
    pub(super) cookie: Zeroizing<String>,
    pub(super) csrf: Zeroizing<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    fn has_token(&self, token: &[u8]) -> bool {
        hash(token).ct_eq(&self.csrf).into()
    }
}

impl Site {
    fn cookie_name(&self) -> String {
        // Cookies do not know of ports; two servers of a machine have two names.
        format!("lockspan-{}", self.at.port())
    }

    /// Checks a password.
    pub(super) async fn log_in(
        &self,
        ends: Option<Ends>,
        user: &str,
        password: &Secret,
    ) -> Result<NewLogin, Refused> {
        self.check_audit()?;
        let checked = self.operators.check(ends, user, password).await;
        let rights = checked.map_err(|Denied(why)| {
            if let Some(more) = self.logins.refused.may_log(Instant::now()) {
                tracing::warn!(target: AUDIT, "audit: a login on the page was refused{more}");
            }
            (StatusCode::FORBIDDEN, why)
        })?;
        let (id, csrf) = (draw()?, draw()?);
        let until = Instant::now() + LASTS;
        let (name, age) = (self.cookie_name(), LASTS.as_secs());
        let rest = format!("; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}");
        // A text that grows would leave its old content behind.
        let mut cookie = String::with_capacity(name.len() + 1 + id.len() + rest.len());
        [&name, "=", &id, &rest].into_iter().for_each(|part| cookie.push_str(part));
        let login = Login {
            user: user.to_owned(),
            may_act: rights.act,
            id: hash(id.as_bytes()),
            csrf: hash(csrf.as_bytes()),
            until,
        };
        let mut known = crate::lock(&self.logins.known);
        known.retain(|_, login| login.until > Instant::now());
        if known.len() >= MOST
            && let Some((&oldest, _)) = known.iter().min_by_key(|(_, login)| login.until)
        {
            known.remove(&oldest);
        }
        known.insert(login.id, login.clone());
        tracing::info!(target: AUDIT, user = %shown(user), "audit: logged in on the page");
        Ok(NewLogin { login, cookie: cookie.into(), csrf })
    }

    /// The login of a request: the token is in a header, or in the address, since a browser lets
    /// nobody add headers to a request for events.
    pub(super) fn login(&self, headers: &HeaderMap, query: &Query) -> Option<Login> {
        let token = query.bytes("token").or_else(|| Some(one(headers, CSRF).ok()??.as_bytes()))?;
        self.by_cookie(headers).filter(|login| login.has_token(token))
    }

    fn by_cookie(&self, headers: &HeaderMap) -> Option<Login> {
        let id = self.cookie(headers)?;
        let known = crate::lock(&self.logins.known);
        known.get(&id).filter(|login| login.until > Instant::now()).cloned()
    }

    /// Whether it is not over: by its time, or by a logout.
    pub(super) fn stands(&self, login: &Login) -> bool {
        let known = crate::lock(&self.logins.known);
        known.get(&login.id).is_some_and(|login| login.until > Instant::now())
    }

    /// Ends it; the cookie to set.
    pub(super) fn log_out(&self, headers: &HeaderMap) -> String {
        let id = self.cookie(headers);
        let known = id.and_then(|id| crate::lock(&self.logins.known).remove(&id));
        if let Some(Login { user, .. }) = known {
            tracing::info!(target: AUDIT, user = %shown(&user), "audit: logged out of the page");
        }
        format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", self.cookie_name())
    }

    /// Whether the cookie is that of a login.
    pub(super) fn has_login(&self, headers: &HeaderMap) -> bool {
        self.by_cookie(headers).is_some()
    }

    /// Who asks: logged in, and by the page's own script.
    pub(super) fn by_page(&self, headers: &HeaderMap) -> Result<Login, Refused> {
        let login = self.by_cookie(headers).ok_or_else(|| {
            let why = self.operators.how().err();
            (StatusCode::UNAUTHORIZED, why.unwrap_or_else(|| "log in first".to_owned()))
        })?;
        let csrf = one(headers, CSRF)?.unwrap_or_default();
        if !login.has_token(csrf.as_bytes()) {
            let why = "the CSRF token of the page is missing or wrong: log in again".to_owned();
            return Err((StatusCode::FORBIDDEN, why));
        }
        Ok(login)
    }

    /// Whether what is done now can be written down.
    fn check_audit(&self) -> Result<(), Refused> {
        let gate = self.shared.config.audit.check();
        gate.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why.to_owned()))
    }

    /// Who acts, if they may.
    pub(super) fn actor(&self, headers: &HeaderMap) -> Result<Login, Refused> {
        let login = self.by_page(headers)?;
        self.check_audit()?;
        if !login.may_act {
            let user = shown(&login.user);
            if let Some(more) = self.logins.not_allowed.may_log(Instant::now()) {
                tracing::warn!(
                    target: AUDIT,
                    user = %user,
                    "audit: action refused: this user may only look{more}"
                );
            }
            let why = format!(
                "user {user} may look, but not end sessions or take back records: the admin right \
                 on everything is missing"
            );
            return Err((StatusCode::FORBIDDEN, why));
        }
        Ok(login)
    }

    /// The hash of the cookie.
    fn cookie(&self, headers: &HeaderMap) -> Option<Hash> {
        let name = self.cookie_name();
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';'));
        pairs.find_map(|pair| {
            let (known, value) = pair.trim().split_once('=')?;
            (known == name).then(|| hash(value.as_bytes()))
        })
    }
}

/// A name in a log line.
pub(super) fn shown(name: &str) -> String {
    name.escape_debug().take(64).collect()
}

fn draw() -> Result<Zeroizing<String>, Refused> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(|why| {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("the system has no random numbers: {why}"))
    })?;
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    text.extend(digits.filter_map(|digit| char::from_digit(digit.into(), 16)));
    Ok(text)
}
