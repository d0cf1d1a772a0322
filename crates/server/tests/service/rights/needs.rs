//! What each command and each message needs, said a second time and in another way than the server
//! does.
//!
//! Every field is named here, and none is passed over by `..`: a new field, which is what a new
//! flag is, does not compile before somebody has thought about it. A command or a message that has
//! no row ends the test.

use lockspan_protocol::{Claim, Epoch, Mode, ToServer};
use lockspan_wire::{Command, LockGrant, LockHandle};

/// What a user has to have, of the datatype that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// To read, or to write.
    Read,
    Write,
    Inspect,
    /// To administer everything.
    AdminAll,
    /// The same, because an epoch is shown that the server has not come to.
    Epoch,
}

/// What a lock in this mode needs. An upgrade is a write, whatever mode it names.
fn lock(mode: Mode, upgrade: bool) -> Need {
    if mode == Mode::Write || upgrade { Need::Write } else { Need::Read }
}

fn epoch_of(present: Epoch, epoch: Epoch, claim: Option<&Claim>) -> Option<Need> {
    // What is held now was granted in an earlier epoch.
    let held = claim.is_some_and(|claim| match claim {
        Claim::Held { token } => token.epoch() >= present,
        Claim::Waiting { ticket: _, upgrade: _, owners: _ } => false,
    });
    (epoch > present || held).then_some(Need::Epoch)
}

fn reassert(present: Epoch, mode: Mode, epoch: Epoch, claim: &Claim) -> Vec<Need> {
    let upgrade = match claim {
        Claim::Held { token: _ } => false,
        Claim::Waiting { ticket: _, upgrade, owners: _ } => *upgrade,
    };
    let mut needs = vec![lock(mode, upgrade)];
    needs.extend(epoch_of(present, epoch, Some(claim)));
    needs
}

/// What a command needs beyond a login, if the session that it names is the user's own.
pub(super) fn of_command(present: Epoch, command: &Command) -> Vec<Need> {
    match command {
        Command::Tell { session: _, message } => of_message(present, message),
        Command::Acquire {
            session: _,
            record: _,
            mode,
            wait: _,
            seq: _,
            upgrade,
            owners: _,
            note: _,
        } => vec![lock(*mode, *upgrade)],
        Command::Convert { session: _, record: _, seq: _, mode, wait: _ }
        | Command::Lock { record: _, mode, wait: _, ttl: _, id: _, label: _, note: _ } => {
            vec![lock(*mode, false)]
        }
        Command::LockAll { records, wait: _, ttl: _, id: _, label: _, note: _ } => {
            records.iter().map(|(_, mode)| lock(*mode, false)).collect()
        }
        Command::Renew { record: _, id: _, grant } => {
            let LockGrant { mode, token: _, seal: _ } = grant;
            vec![lock(*mode, false)]
        }
        Command::Release { session: _, record: _, seq: _, keep: _ }
        | Command::Cancel { session: _, record: _, seq: _ } => vec![Need::Read],
        Command::Reassert { session: _, record: _, epoch, former: _, seq: _, mode, claim } => {
            reassert(present, *mode, *epoch, claim)
        }
        Command::Inspect { record: _ } | Command::History { record: _, count: _ } => {
            vec![Need::Inspect]
        }
        Command::End { id: _ } | Command::TakeBack { record: _, wait: _ } => vec![Need::AdminAll],
        // What is one's own may be ended, and needs no right.
        Command::Unlock { record: _, handle } => {
            let LockHandle { id: _, grant: _ } = handle;
            Vec::new()
        }
        Command::Open { session: _, ttl: _, handoff: _, events: _, label: _ }
        | Command::Label { session: _, label: _ }
        | Command::Keep { session: _ }
        | Command::Close { session: _ }
        | Command::Attach { session: _, events: _ }
        | Command::Reasserted { session: _, groups: _, epoch: _, former: _, count: _, sum: _ }
        | Command::Subscribe(_)
        | Command::Unsubscribe(_) => Vec::new(),
        // What they show depends on what the user may see.
        Command::Waits
        | Command::Locks { cursor: _, count: _, pattern: _ }
        | Command::Sessions { after: _, count: _ }
        | Command::Client(_) => Vec::new(),
        // About the server and the connection.
        Command::Slots
        | Command::ClusterSlots
        | Command::Hello { protocol: _, auth: _, name: _, speaks: _ }
        | Command::Auth { user: _, password: _ }
        | Command::Ping(_)
        | Command::Echo(_)
        | Command::Quit
        | Command::Reset
        | Command::Select(_)
        | Command::CommandInfo(_)
        | Command::Info(_) => Vec::new(),
        _ => panic!("{command:?} has no row here: say what it needs"),
    }
}

/// The same for a message of a node.
pub(super) fn of_message(present: Epoch, message: &ToServer) -> Vec<Need> {
    match message {
        ToServer::Acquire { record: _, mode, seq: _, epoch, upgrade, owners: _ } => {
            let mut needs = vec![lock(*mode, *upgrade)];
            needs.extend(epoch_of(present, *epoch, None));
            needs
        }
        ToServer::Reassert { record: _, epoch, former: _, seq: _, mode, claim } => {
            reassert(present, *mode, *epoch, claim)
        }
        ToServer::Release { record: _, seq: _, keep: _ }
        | ToServer::Cancel { record: _, seq: _, keep: _ } => vec![Need::Read],
        ToServer::Open { ttl: _, handoff: _ }
        | ToServer::KeepAlive { number: _ }
        | ToServer::Close
        | ToServer::Label { label: _ }
        // They are about the session's own acquires; whom a waiter may not inspect it is not told.
        | ToServer::Note { record: _, seq: _, note: _ }
        | ToServer::WhoHolds { record: _, seq: _ }
        // It says who holds what the session was granted, and nothing of what it was not.
        | ToServer::Report { record: _, seq: _, number: _, holders: _, waits: _ }
        | ToServer::Nothing { groups: _, epoch: _ }
        | ToServer::Page {
            groups: _,
            epoch: _,
            former: _,
            first: _,
            last: _,
            count: _,
            sum: _,
        }
        | ToServer::Reasserted { groups: _, epoch: _, former: _, count: _, sum: _ } => Vec::new(),
        _ => panic!("{message:?} has no row here: say what it needs"),
    }
}
