//! Who has logged in: a cookie that scripts can't read, and a token that other pages can't.
//!
//! Neither is enough alone. A browser sends the cookies of a host to all its ports, so a server of
//! somebody else on this machine may get to see ours; the token is told once, to the page that
//! logs in, and pages of other ports don't get at what it keeps.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use subtle::ConstantTimeEq as _;

use super::Site;
use super::guard::{Refused, one};
use super::operators::Denied;
use super::query::Query;
use crate::audit::AUDIT;
use crate::seldom::Seldom;

/// How long a login lasts.
pub(super) const LASTS: Duration = Duration::from_secs(3600);

/// Logins at a time; the oldest goes.
const MOST: usize = 64;

/// Wrong passwords that are heard within a time, from whomever.
const ATTEMPTS: usize = 10;
const WITHIN: Duration = Duration::from_secs(60);

/// Where the page puts its token.
pub(super) const CSRF: &str = "x-lockspan-csrf";

/// The logins that there are.
#[derive(Debug, Default)]
pub(super) struct Logins {
    known: Mutex<HashMap<String, Login>>,
    failed: Mutex<VecDeque<Instant>>,
    /// Lines of the log that others can cause.
    refused: Seldom,
    not_allowed: Seldom,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) csrf: String,
    pub(super) may_act: bool,
    id: String,
    until: Instant,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    fn has_token(&self, token: &[u8]) -> bool {
        token.ct_eq(self.csrf.as_bytes()).into()
    }
}

impl Site {
    fn cookie_name(&self) -> String {
        // Cookies do not know of ports; two servers of a machine have two names.
        format!("lockspan-{}", self.at.port())
    }

    /// Checks a password: the cookie to set, and the login.
    pub(super) async fn log_in(
        &self,
        user: &str,
        password: &str,
    ) -> Result<(String, Login), Refused> {
        self.check_audit()?;
        let counts = self.operators.needs_counting();
        if counts {
            self.logins.check_attempts()?;
        }
        let checked = self.operators.check(self.at.ip(), user, password).await;
        let rights = checked.map_err(|Denied(why)| {
            if counts {
                crate::lock(&self.logins.failed).push_back(Instant::now());
            }
            if let Some(more) = self.logins.refused.may_log(Instant::now()) {
                tracing::warn!(target: AUDIT, "audit: a login on the page was refused{more}");
            }
            (StatusCode::FORBIDDEN, why)
        })?;
        let (id, csrf) = (draw()?, draw()?);
        let until = Instant::now() + LASTS;
        let login = Login { user: user.to_owned(), csrf, may_act: rights.act, id, until };
        let mut known = crate::lock(&self.logins.known);
        known.retain(|_, login| login.until > Instant::now());
        if known.len() >= MOST
            && let Some(oldest) = known.iter().min_by_key(|(_, login)| login.until)
        {
            let oldest = oldest.0.clone();
            known.remove(&oldest);
        }
        known.insert(login.id.clone(), login.clone());
        tracing::info!(target: AUDIT, user = %shown(user), "audit: logged in on the page");
        let (name, age) = (self.cookie_name(), LASTS.as_secs());
        let cookie =
            format!("{name}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}", login.id);
        Ok((cookie, login))
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
            let why = "the page's token is missing or wrong: log in again".to_owned();
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
                    "audit: may look, and wanted to act{more}"
                );
            }
            let why = format!("the user {user} may look, but not act");
            return Err((StatusCode::FORBIDDEN, why));
        }
        Ok(login)
    }

    fn cookie(&self, headers: &HeaderMap) -> Option<String> {
        let name = self.cookie_name();
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';'));
        pairs.find_map(|pair| {
            let (known, value) = pair.trim().split_once('=')?;
            (known == name).then(|| value.to_owned())
        })
    }
}

impl Logins {
    fn check_attempts(&self) -> Result<(), Refused> {
        let mut failed = crate::lock(&self.failed);
        while failed.pop_front_if(|at| at.elapsed() > WITHIN).is_some() {}
        if failed.len() < ATTEMPTS {
            return Ok(());
        }
        let why = "too many wrong passwords; try again in a minute".to_owned();
        Err((StatusCode::TOO_MANY_REQUESTS, why))
    }
}

/// A name in a log line.
pub(super) fn shown(name: &str) -> String {
    name.escape_debug().take(64).collect()
}

fn draw() -> Result<String, Refused> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|why| (StatusCode::INTERNAL_SERVER_ERROR, format!("no random numbers: {why}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
