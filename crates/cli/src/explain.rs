//! Why there is no connection, or no lock, in words for a person at a shell: what the library says,
//! what to type, and the exit code. Every command that talks to a service fails through here.

use lockspan_client::{ConnectError, LockError, TlsTrouble, TroubleKind, shown_url};
use lockspan_protocol::{AcquireRefusal, SessionRefusal};

use crate::exit::{Failure, NO_PERMISSION, UNAVAILABLE, USAGE};
use crate::values::Span;

/// The variables that hold a login.
const LOGIN: &str = "LOCKSPAN_USER and LOCKSPAN_PASSWORD_FILE (or LOCKSPAN_PASSWORD)";

/// There is no connection to the service at `url`.
pub(crate) fn no_connection(url: &str, why: &ConnectError) -> Failure {
    let code = match why {
        ConnectError::BadUrl { .. } | ConnectError::BadOption { .. } => USAGE,
        ConnectError::Login { .. } => NO_PERMISSION,
        _ => UNAVAILABLE,
    };
    let hint = hint(url, why);
    // Such a URL is in the text already.
    let at = match why {
        ConnectError::BadUrl { .. } => String::new(),
        _ => format!(" to {}", shown_url(url)),
    };
    Failure::new(code, format!("can't connect{at}: {why}{hint}"))
}

/// What can be done at a shell, beyond what the library says.
fn hint(url: &str, why: &ConnectError) -> String {
    match why {
        ConnectError::Login { given: true, .. } => {
            format!(". Check the user and the password in the URL, or in {LOGIN}")
        }
        ConnectError::Login { given: false, address, .. } if address.starts_with('/') => {
            format!(": set {LOGIN}")
        }
        ConnectError::Login { given: false, .. } => format!(", or set {LOGIN}"),
        ConnectError::Tls { trouble: TlsTrouble::UnknownIssuer, .. } => {
            ", or set LOCKSPAN_CA=FILE".to_owned()
        }
        ConnectError::Tls { trouble: TlsTrouble::NeedsCertificate, .. } => {
            ", or set LOCKSPAN_CERT=FILE and LOCKSPAN_KEY=FILE".to_owned()
        }
        ConnectError::Unreachable { source, .. }
            if is_redis(url) && source.to_string().contains("UnknownIssuer") =>
        {
            " rediss:// trusts the certificate authorities of the system; set SSL_CERT_FILE=FILE \
             to trust those of a file instead"
                .to_owned()
        }
        ConnectError::BadOption { what } if what.starts_with("the password of user") => {
            ", or set LOCKSPAN_PASSWORD_FILE or LOCKSPAN_PASSWORD".to_owned()
        }
        _ => String::new(),
    }
}

/// Whether a URL is one of a Redis.
pub(crate) fn is_redis(url: &str) -> bool {
    lockspan_redis::service_address(url).is_some()
}

/// A command that asks a Lockspan server what it can't ask of a Redis.
pub(crate) fn not_on_redis(command: &str, url: &str) -> Failure {
    let text = format!(
        "lockspan {command} needs a Lockspan server, and {} is a Redis, which keeps no list of its \
         locks. To look at one record, use redis-cli: GET writelock:TYPE:ID and SMEMBERS \
         readlock:TYPE:ID. lockspan run and lockspan bench do work with Redis",
        shown_url(url)
    );
    Failure::new(USAGE, text)
}

/// A record was not granted at the service called `at`; the lease that was asked for is `lease`.
pub(crate) fn not_granted(
    record: &lockspan_protocol::Record,
    at: &str,
    lease: std::time::Duration,
    why: &LockError,
) -> Failure {
    if let LockError::NoSession(why) = why
        && let SessionRefusal::Lease { min, max } = **why
    {
        let (lease, min, max) = (Span(lease), Span(min), Span(max));
        let text = format!(
            "--lease {lease} is not allowed: the service {at} accepts leases from {min} to {max}"
        );
        return Failure::new(USAGE, text);
    }
    let is_denied = match why {
        LockError::Refused(why) => matches!(**why, AcquireRefusal::Denied { .. }),
        LockError::Trouble(why) => {
            matches!(why.kind, TroubleKind::NoPermission | TroubleKind::NoAuthentication)
        }
        _ => false,
    };
    let code = if is_denied { NO_PERMISSION } else { UNAVAILABLE };
    Failure::new(code, format!("{record} was not granted at {at}: {why}"))
}
