//! Commands that may look at much or answer much. They do so in steps, and let others have their
//! turn in between; what answers by many replies also waits for the client to read them.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lockspan_protocol::SessionId;
use lockspan_protocol::server::table::RecordView;
use lockspan_wire::{
    ClientCommand, Command, CommandError, ErrorCode, Events, PublicId, Value, put_value, reply,
};

use super::commands::text;
use super::connection::Connection;
use super::glob::Pattern;
use super::outbox::Dirty;
use crate::clock;
use crate::service::{LocksLook, SessionsLook};
use crate::turn::Turn;
use crate::users::Verb;

/// Records and owners that `LS.WAITS` shows, and claims of each.
const WAITS: usize = 200;
const CLAIMS_OF_WAIT: usize = 20;

/// Connections that are looked at in one step.
const PEERS: usize = 128;

/// A part of `CLIENT LIST` with so many bytes ends.
const LIST: usize = 256 << 10;

/// Sessions or channels that are changed in one step.
const CHANGED: usize = 16;

/// Whether a command goes through [`Connection::run_long`].
pub(super) fn takes_long(command: &Command) -> bool {
    matches!(
        command,
        Command::Inspect { .. }
            | Command::History { .. }
            | Command::Waits
            | Command::Locks { .. }
            | Command::Sessions { .. }
            | Command::Client(ClientCommand::List { .. })
            | Command::Subscribe(_)
            | Command::Unsubscribe(_)
            | Command::Reset
    )
}

/// Whether the reply may be much longer than the command.
pub(super) fn answers_much(command: &Command) -> bool {
    takes_long(command) && !matches!(command, Command::Reset)
        || matches!(command, Command::Info(_) | Command::CommandInfo(_) | Command::Echo(_))
        || matches!(command, Command::Ping(Some(_)))
}

impl Connection {
    /// Carries out such a command.
    pub(super) async fn run_long(&mut self, command: Command, turn: &mut Turn<'_>) {
        let value = match command {
            Command::Subscribe(channels) => return self.subscribe(channels, turn).await,
            Command::Unsubscribe(channels) => return self.unsubscribe(channels, turn).await,
            Command::Reset => {
                self.reset(turn).await;
                Value::status("RESET")
            }
            Command::Client(ClientCommand::List { after }) => self.client_list(after, turn).await,
            Command::Inspect { record } => {
                let service = &self.shared.service;
                let recovers = service.recovers(&record);
                let value = match service.inspect(&record) {
                    Some(view) => self.shown(&view),
                    None => reply::unknown_record(&record, recovers),
                };
                if recovers { self.with_recovery(value) } else { value }
            }
            Command::History { record, count } => {
                let service = &self.shared.service;
                let history = service.history(&record, count);
                reply::history(&history, &|session| service.who(session), clock::now())
            }
            Command::Waits => self.waits(turn).await,
            Command::Locks { cursor, count, pattern } => {
                let pattern = pattern.as_deref().map(Pattern::new);
                self.locks(LocksLook::new(cursor, count, pattern), turn).await
            }
            Command::Sessions { after, count } => self.sessions(after, count, turn).await,
            _ => Value::error(ErrorCode::Err, "this command can't be carried out in steps"),
        };
        turn.give_way().await;
        // It may be long, so it is written while nobody waits for the outbox.
        let mut bytes = BytesMut::new();
        put_value(&value, self.protocol, &mut bytes);
        let mut dirty = Dirty::default();
        self.outbox.reply_bytes(bytes, &mut dirty);
        turn.flush(dirty).await;
    }

    /// A record as replies have it.
    fn shown(&self, view: &RecordView) -> Value {
        let service = &self.shared.service;
        reply::record(view, &|session| service.who(session), clock::now())
    }

    async fn shown_all(&self, views: &[RecordView], turn: &mut Turn<'_>) -> Vec<Value> {
        let mut shown = Vec::with_capacity(views.len());
        for view in views {
            turn.give_way().await;
            shown.push(self.shown(view));
        }
        shown
    }

    /// `CLIENT LIST`: the connections with a number above `after`, until the part is full.
    async fn client_list(&self, mut after: u64, turn: &mut Turn<'_>) -> Value {
        let mut list = String::new();
        loop {
            let some = self.shared.peers.after(after, PEERS);
            for peer in some.iter().filter(|peer| self.access.may_see(peer)) {
                list += &peer.line();
                if list.len() >= LIST {
                    return Value::bulk(list);
                }
            }
            let Some(last) = some.last() else { return Value::bulk(list) };
            after = last.outbox.id;
            turn.give_way().await;
        }
    }

    async fn locks(&self, mut look: LocksLook, turn: &mut Turn<'_>) -> Value {
        let service = &self.shared.service;
        let may = |datatype: &[u8]| self.access.may(Verb::Inspect, datatype);
        while service.look_at_locks(&mut look, |record| may(record.datatype())) {
            turn.give_way().await;
        }
        let (next, views) = service.locks_seen(look);
        let records = self.shown_all(&views, turn).await;
        self.with_recovery(reply::locks(next, records))
    }

    async fn sessions(&self, after: Option<PublicId>, count: usize, turn: &mut Turn<'_>) -> Value {
        let all = self.access.may_everywhere(Verb::Inspect);
        let own = self.access.user().filter(|_| !all);
        let mut look = SessionsLook::new(after, count);
        while self.shared.service.look_at_sessions(&mut look, own) {
            turn.give_way().await;
        }
        reply::sessions(&look.seen())
    }

    /// Who waits for whom, as far as the user may see it.
    async fn waits(&self, turn: &mut Turn<'_>) -> Value {
        let service = &self.shared.service;
        let may = |datatype: &[u8]| self.access.may(Verb::Inspect, datatype);
        let mut records = Vec::new();
        for table in 0..service.tables() {
            turn.give_way().await;
            let may = |record: &lockspan_protocol::Record| may(record.datatype());
            records.extend(service.wanted_of(table, WAITS, CLAIMS_OF_WAIT, may));
        }
        records.truncate(WAITS);
        let records = self.shown_all(&records, turn).await;
        let owners = service.owners(WAITS, |record| may(record.datatype()));
        turn.give_way().await;
        let mut deadlocks = service.deadlocks();
        deadlocks.retain(|it| may(it.record.datatype()));
        let public = |session| service.who(session);
        let value = reply::waits(records, &owners, &deadlocks, &public, clock::now());
        self.with_recovery(value)
    }

    /// The reply, and whom the server waits for, if it has been restarted: what it shows may not be
    /// all that is held.
    fn with_recovery(&self, value: Value) -> Value {
        match self.shared.service.recovery() {
            Some(recovery) => reply::recovering(value, &recovery),
            None => value,
        }
    }

    async fn subscribe(&mut self, channels: Vec<Bytes>, turn: &mut Turn<'_>) {
        let mut dirty = Dirty::default();
        for (at, channel) in channels.into_iter().enumerate() {
            let value = match self.listen_on(&channel) {
                Ok(session) => {
                    self.add_channel(session);
                    reply::subscribed(channel, self.channels.len())
                }
                Err(why) => why.into(),
            };
            if !self.answer_one_of_many(at, &value, &mut dirty, turn).await {
                return;
            }
        }
        dirty.flush();
    }

    fn listen_on(&mut self, channel: &Bytes) -> Result<SessionId, CommandError> {
        let Some(session) = reply::channel_session(channel) else {
            let text = format!("SUBSCRIBE: channel {:?} is not lockspan:<session>", text(channel));
            return Err(CommandError::new(ErrorCode::Err, text));
        };
        self.attach(session, Events::Message).map(|()| session)
    }

    async fn unsubscribe(&mut self, channels: Vec<Bytes>, turn: &mut Turn<'_>) {
        let mut dirty = Dirty::default();
        let all = || self.channels.iter().map(|&id| reply::channel(id).into()).collect();
        let named: Vec<Bytes> = if channels.is_empty() { all() } else { channels };
        if named.is_empty() {
            self.outbox.reply(&reply::unsubscribed(None, 0), &mut dirty);
        }
        for (at, channel) in named.into_iter().enumerate() {
            if let Some(session) = reply::channel_session(&channel)
                && self.channels.remove(&session)
                && let Ok(seat) = self.seat(session)
            {
                seat.stop_listening(&self.outbox);
                // The next `LS.TELL` has to be answered all the same.
                self.told = None;
            }
            let value = reply::unsubscribed(Some(channel), self.channels.len());
            if !self.answer_one_of_many(at, &value, &mut dirty, turn).await {
                return;
            }
        }
        dirty.flush();
    }

    /// The next of many replies to one command, when there is room for it. False if the connection
    /// is over.
    async fn answer_one_of_many(
        &mut self,
        at: usize,
        value: &Value,
        dirty: &mut Dirty,
        turn: &mut Turn<'_>,
    ) -> bool {
        self.outbox.reply(value, dirty);
        if self.outbox.is_full() {
            dirty.flush();
            if !self.catch_up(turn).await {
                return false;
            }
        }
        if at % CHANGED == CHANGED - 1 {
            turn.give_way().await;
        }
        true
    }

    /// As if the connection were new.
    async fn reset(&mut self, turn: &mut Turn<'_>) {
        self.forget_sessions(turn).await;
        self.log_out();
        self.peer.about(|about| about.name.clear());
        self.protocol = lockspan_wire::Protocol::Resp2;
        self.set_speaks(1);
        self.outbox.set_protocol(self.protocol);
    }

    /// The connection hears of no session any more, and knows none.
    pub(super) async fn forget_sessions(&mut self, turn: &mut Turn<'_>) {
        self.channels.clear();
        self.told = None;
        self.last = None;
        // They stay, to withdraw what their commands wait for; each use looks whose they are.
        let seats: Vec<_> = self.seats.values().map(Arc::clone).collect();
        for some in seats.chunks(CHANGED) {
            some.iter().for_each(|seat| seat.stop_listening(&self.outbox));
            turn.give_way().await;
        }
    }
}
