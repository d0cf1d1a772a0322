//! Commands that are not about locks: what client libraries say when they connect, and what people
//! ask.

use bytes::Bytes;
use lockspan_wire::{
    ClientCommand, Command, CommandError, ErrorCode, NODE_PROTOCOL, Protocol, Value, reply,
};

use super::connection::{Connection, Later};
use super::login::Login;
use super::{info, long};
use crate::service::Work;

pub(super) type Reply = Result<Value, CommandError>;

fn refuse(code: ErrorCode, text: impl Into<String>) -> Reply {
    Err(CommandError::new(code, text))
}

impl Connection {
    /// Carries out one command.
    pub(super) fn run(&mut self, command: Command, work: &mut Work) {
        if self.shared.service.is_halted() {
            let text = "the server is stopping; connect again";
            if !matches!(command, Command::Tell { .. }) {
                let value = Value::error(ErrorCode::Loading, text);
                self.outbox.reply(&value, &mut work.dirty);
            }
            return;
        }
        if !self.shared.service.is_ready() && self.must_wait(&command, work) {
            return;
        }
        if !self.access.is_everybody()
            && let Err(why) = self.permit(&command, work)
        {
            self.deny(&command, &why, work);
            return;
        }
        if let Command::Tell { session, message } = command {
            self.tell(session, message, work);
            return;
        }
        if long::answers_much(&command) && self.outbox.holds_much_back() {
            self.outbox.reply(&held_back(), &mut work.dirty);
            return;
        }
        if long::takes_long(&command) {
            self.later = Some(Later::Long(command));
            return;
        }
        let reply = match command {
            Command::Hello { protocol, auth: None, name, speaks } => {
                self.hello(protocol, name, speaks)
            }
            Command::Hello { .. } | Command::Auth { .. } if self.shared.users.is_none() => {
                no_users()
            }
            Command::Hello { protocol, auth: Some((user, password)), name, speaks } => {
                let hello = Some((protocol, name, speaks));
                self.later = Some(Later::Login(Login { user, password, hello }));
                return;
            }
            Command::Auth { user, password } => {
                let user = user.unwrap_or_else(|| Bytes::from_static(b"default"));
                self.later = Some(Later::Login(Login { user, password, hello: None }));
                return;
            }
            Command::Ping(text) => Ok(self.pong(text)),
            Command::Echo(text) => Ok(Value::Bulk(text)),
            Command::Quit => {
                self.quits = true;
                Ok(Value::OK)
            }
            Command::Select(0) => Ok(Value::OK),
            Command::Select(_) => refuse(ErrorCode::Err, "SELECT: there is only database 0"),
            Command::CommandInfo(args) => Ok(reply::command_info(&args)),
            Command::Info(sections) => Ok(Value::bulk(info::info(&self.shared, &sections))),
            Command::Client(command) => self.client(command),
            command => match self.run_lock_command(command, work) {
                Ok(None) => return,
                Ok(Some(value)) => Ok(value),
                Err(why) => Err(why),
            },
        };
        let value = reply.unwrap_or_else(Value::from);
        self.outbox.reply(&value, &mut work.dirty);
    }

    /// The server has not stored yet that it has started, since its disk is full. Whether the
    /// command has to wait for that; then its client is told.
    fn must_wait(&self, command: &Command, work: &mut Work) -> bool {
        match command {
            Command::Hello { .. }
            | Command::Auth { .. }
            | Command::Ping(_)
            | Command::Echo(_)
            | Command::Quit
            | Command::Reset
            | Command::Select(_)
            | Command::CommandInfo(_)
            | Command::Info(_)
            | Command::Client(_) => return false,
            // A node says it again until it is answered, and goes on by itself.
            Command::Tell { .. } => return true,
            _ => {}
        }
        let why = self.shared.service.storage_trouble();
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let text = format!("the server can't write to its data directory{why}; try again later");
        self.outbox.reply(&Value::error(ErrorCode::Loading, text), &mut work.dirty);
        true
    }

    /// The latest protocol of nodes that both sides speak counts from now on.
    pub(super) fn set_speaks(&mut self, speaks: u32) {
        self.speaks = speaks.min(NODE_PROTOCOL);
        self.outbox.set_speaks(self.speaks);
    }

    pub(super) fn hello(
        &mut self,
        protocol: Option<Protocol>,
        name: Option<Bytes>,
        speaks: Option<u32>,
    ) -> Reply {
        if let Some(name) = name {
            let name = label("HELLO", &name)?;
            self.peer.about(|about| about.name = name);
        }
        if let Some(protocol) = protocol {
            self.protocol = protocol;
            self.outbox.set_protocol(protocol);
        }
        if let Some(speaks) = speaks {
            self.set_speaks(speaks);
        }
        Ok(reply::hello(env!("CARGO_PKG_VERSION"), self.protocol, self.outbox.id, self.speaks))
    }

    /// A RESP2 connection with a subscription reads lists and nothing else, so there it is one.
    fn pong(&self, text: Option<Bytes>) -> Value {
        if self.protocol == Protocol::Resp2 && !self.channels.is_empty() {
            let text = text.unwrap_or_default();
            return Value::Array(vec![Value::bulk("pong"), Value::Bulk(text)]);
        }
        text.map_or_else(|| Value::status("PONG"), Value::Bulk)
    }

    fn client(&self, command: ClientCommand) -> Reply {
        Ok(match command {
            ClientCommand::Id => self.outbox.id.into(),
            ClientCommand::GetName => {
                let name = self.peer.about(|about| about.name.clone());
                if name.is_empty() { Value::Null } else { Value::bulk(name) }
            }
            ClientCommand::SetName(name) => {
                let name = label("CLIENT SETNAME", &name)?;
                self.peer.about(|about| about.name = name);
                Value::OK
            }
            ClientCommand::SetInfo { attribute, value } => {
                let value = label("CLIENT SETINFO", &value)?;
                self.peer.about(|about| {
                    if attribute.eq_ignore_ascii_case(b"lib-name") {
                        about.library = value;
                    } else {
                        about.version = value;
                    }
                });
                Value::OK
            }
            ClientCommand::Info => Value::bulk(self.peer.line()),
            // What is never on needs no turning off.
            _ => Value::OK,
        })
    }
}

fn no_users() -> Reply {
    refuse(ErrorCode::Err, "AUTH: this server has no users; connect without a user and a password")
}

/// What is answered instead of something long.
fn held_back() -> Value {
    let text = "an earlier command of this connection is still waiting, and 64 KiB of replies to \
                later commands are queued behind it: use another connection";
    Value::error(ErrorCode::Limit, text)
}

/// What a client calls itself is kept as long as it is connected, and shown to all: so it is short.
const LABEL_MAX: usize = 256;

/// A name that a client gives itself, its library or its version.
fn label(command: &str, name: &[u8]) -> Result<String, CommandError> {
    if name.len() > LABEL_MAX {
        let said = name.len();
        let text = format!("{command}: the name has {said} bytes; the maximum is {LABEL_MAX}");
        return Err(CommandError::new(ErrorCode::Err, text));
    }
    Ok(text(name))
}

/// Bytes as text that fits into one line of `CLIENT LIST`.
pub(super) fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace(' ', "_")
}
