//! How a connection becomes somebody's: `AUTH`, and `HELLO` with `AUTH`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockspan_wire::{CommandError, ErrorCode, Protocol, Secret, Value};

use super::access::{Access, Known};
use super::admission::Refused as TooMany;
use super::commands::Reply;
use super::connection::Connection;
use crate::service::Work;
use crate::turn::Turn;
use crate::users::{Refused, User, Verb};

/// What `HELLO` said beside the user: the RESP, a name, and the protocol of nodes.
type Hello = (Option<Protocol>, Option<Bytes>, Option<u32>);

/// A login that is not decided yet.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) user: Bytes,
    pub(super) password: Secret,
    /// What else `HELLO` said.
    pub(super) hello: Option<Hello>,
}

/// How often it is looked whether a client that waits for the answer to its login is still there.
const GLANCE: Duration = Duration::from_millis(250);

impl Connection {
    /// Decides a login, and answers it. Other connections go on meanwhile. A client that goes away,
    /// or whose time to log in is over, leaves its place to others.
    pub(super) async fn log_in(&mut self, login: Login, turn: &mut Turn<'_>) {
        let Login { user, password, hello } = login;
        let Some(users) = self.shared.users.clone() else { return };
        // A name that is no text is nobody's; it is compared like all others.
        let name = str::from_utf8(&user).unwrap_or_default();
        let checked = async {
            tokio::select! {
                checked = users.check(self.peer.place, name, &password) => Some(checked),
                () = self.gone() => None,
            }
        };
        let Some(checked) = turn.wait_for(checked).await else { return };
        let mut is_over = false;
        let reply = match checked {
            Ok(user) => match (self.become_user(user, turn).await, hello) {
                (Ok(()), Some((protocol, name, speaks))) => self.hello(protocol, name, speaks),
                (Ok(()), None) => Ok(Value::OK),
                (Err(why), _) => {
                    is_over = self.access.is_nobody();
                    Err(CommandError::new(ErrorCode::Limit, why.to_string()))
                }
            },
            Err(why) => refusal(why),
        };
        let mut work = Work::default();
        let value = reply.unwrap_or_else(Value::from);
        self.outbox.reply(&value, &mut work.dirty);
        work.dirty.flush();
        if is_over {
            // Nobody waits for it to read that: its place is another's already.
            self.outbox.close();
        }
    }

    /// Until nobody waits for an answer any more.
    async fn gone(&self) {
        let is_gone = || {
            let outbox = &self.outbox;
            outbox.closed().is_some() || outbox.stream().is_gone() || self.is_late()
        };
        while !is_gone() {
            tokio::time::sleep(GLANCE).await;
        }
    }

    async fn become_user(&mut self, user: Arc<User>, turn: &mut Turn<'_>) -> Result<(), TooMany> {
        let is_operator = user.may_everywhere(Verb::Admin);
        if let Err(why) = self.ticket.log_in(user.name(), is_operator) {
            if let Some(more) = self.shared.floods.refused.may_log(Instant::now()) {
                tracing::warn!("a login of user {} is refused: {why}{more}", user.name());
            }
            return Err(why);
        }
        if self.access.user() != Some(user.name()) {
            self.forget_sessions(turn).await;
        }
        self.peer.about(|about| about.user = user.name().to_string());
        self.outbox.allow(self.shared.config.outbox);
        self.access = Access::User(Known::new(user));
        Ok(())
    }

    /// Nobody is logged in any more.
    pub(super) fn log_out(&mut self) {
        // Otherwise a stranger would win time by it.
        if self.access.user().is_some() {
            self.login_anew();
            self.access = Access::Nobody;
            self.peer.about(|about| about.user.clear());
        }
    }
}

fn refusal(why: Refused) -> Reply {
    let code = match why {
        Refused::Wrong => ErrorCode::WrongPass,
        Refused::TryAgain => ErrorCode::Limit,
    };
    Err(CommandError::new(code, why.to_string()))
}
