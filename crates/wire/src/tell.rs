//! What a node tells a server: the command `LS.TELL`.

use bytes::BytesMut;
use lockspan_protocol::{Claim, SessionId, ToServer};

use crate::hot;
use crate::read::{Bad, Reader};
use crate::words::{Bulks, Words, handoff_word, newer};

/// The name of the command.
pub(crate) const TELL: &str = "LS.TELL";

/// Writes `LS.TELL <session> <verb> <fields...>` to the end of `out`.
pub fn put_tell(session: SessionId, message: &ToServer, out: &mut BytesMut) {
    if !hot::put_tell(session, message, out) {
        put_long_tell(session, message, out);
    }
}

/// The same, the long way.
pub(crate) fn put_long_tell(session: SessionId, message: &ToServer, out: &mut BytesMut) {
    let mut to = Bulks::new(b'*', TELL, session, out);
    match message {
        ToServer::Open { ttl, handoff } => {
            to.begin("open", 2);
            to.duration(*ttl);
            to.word(handoff_word(*handoff).as_bytes());
        }
        ToServer::KeepAlive { number } => {
            to.begin("keep-alive", 1);
            to.number(*number);
        }
        ToServer::Close => to.begin("close", 0),
        ToServer::Label { label } => {
            to.begin("label", 1);
            to.word(label.as_str().as_bytes());
        }
        ToServer::Note { record, seq, note } => {
            to.begin("note", 3);
            to.number(seq.0);
            to.word(note.as_str().as_bytes());
            to.record(record);
        }
        ToServer::WhoHolds { record, seq } => {
            to.begin("who-holds", 2);
            to.number(seq.0);
            to.record(record);
        }
        ToServer::Acquire { record, mode, seq, epoch, upgrade, owners } => {
            to.begin("acquire", 6);
            to.mode(Some(*mode));
            to.number(seq.0);
            to.epoch(*epoch);
            to.flag(*upgrade);
            to.owners(owners);
            to.record(record);
        }
        ToServer::Release { record, seq, keep } => {
            to.begin("release", 3);
            to.number(seq.0);
            to.keep(*keep);
            to.record(record);
        }
        ToServer::Cancel { record, seq, keep } => {
            to.begin("cancel", 3);
            to.number(seq.0);
            to.keep(*keep);
            to.record(record);
        }
        ToServer::Report { record, seq, number, holders, waits } => {
            to.begin("report", 5);
            to.number(seq.0);
            to.number(*number);
            to.owners(holders);
            to.waits(waits);
            to.record(record);
        }
        ToServer::Reassert { record, epoch, former, seq, mode, claim } => {
            to.begin("reassert", if matches!(claim, Claim::Held { .. }) { 7 } else { 9 });
            to.epoch(*epoch);
            to.number(former.0);
            to.number(seq.0);
            to.mode(Some(*mode));
            put_claim(claim, &mut to);
            to.record(record);
        }
        ToServer::Page { groups, epoch, former, first, last, count, sum } => {
            to.begin("page", 7);
            to.groups(*groups);
            to.epoch(*epoch);
            to.number(former.0);
            to.number(first.0);
            to.number(last.0);
            to.number((*count).into());
            to.number(*sum);
        }
        ToServer::Nothing { groups, epoch } => {
            to.begin("nothing", 2);
            to.groups(*groups);
            to.epoch(*epoch);
        }
        ToServer::Reasserted { groups, epoch, former, count, sum } => {
            to.begin("reasserted", 5);
            to.groups(*groups);
            to.epoch(*epoch);
            to.number(former.0);
            to.number((*count).into());
            to.number(*sum);
        }
        _ => newer(message),
    }
    to.finish();
}

fn put_claim(claim: &Claim, to: &mut Bulks<'_>) {
    match claim {
        Claim::Held { token } => {
            to.word(b"held");
            to.packed(token.number());
        }
        Claim::Waiting { ticket, upgrade, owners } => {
            to.word(b"waiting");
            match ticket {
                Some(ticket) => to.packed(ticket.number()),
                None => to.word(b"-"),
            }
            to.flag(*upgrade);
            to.owners(owners);
        }
    }
}

const VERBS: &str = "one of open, keep-alive, close, label, acquire, note, who-holds, release, \
                     cancel, report, reassert, page, nothing, reasserted";

/// Reads what follows `LS.TELL`.
pub(crate) fn read_tell(from: &mut Reader<'_>) -> Result<(SessionId, ToServer), Bad> {
    let session = from.session("session")?;
    let verb = from.word("verb")?;
    let message = match verb {
        b"acquire" => ToServer::Acquire {
            mode: from.mode("mode")?,
            seq: from.seq("seq")?,
            epoch: from.epoch("epoch")?,
            upgrade: from.flag("upgrade")?,
            owners: from.owners("owners")?,
            record: from.record()?,
        },
        b"release" => ToServer::Release {
            seq: from.seq("seq")?,
            keep: from.optional_seq("keep")?,
            record: from.record()?,
        },
        b"cancel" => ToServer::Cancel {
            seq: from.seq("seq")?,
            keep: from.optional_seq("keep")?,
            record: from.record()?,
        },
        b"keep-alive" => ToServer::KeepAlive { number: from.number("number")? },
        b"open" => {
            ToServer::Open { ttl: from.duration("lease")?, handoff: from.handoff("hand-off")? }
        }
        b"close" => ToServer::Close,
        b"label" => ToServer::Label { label: from.annotation("label")? },
        b"note" => ToServer::Note {
            seq: from.seq("seq")?,
            note: from.annotation("note")?,
            record: from.record()?,
        },
        b"who-holds" => ToServer::WhoHolds { seq: from.seq("seq")?, record: from.record()? },
        b"report" => ToServer::Report {
            seq: from.seq("seq")?,
            number: from.number("number")?,
            holders: from.owners("holders")?,
            waits: from.waits("waits")?,
            record: from.record()?,
        },
        b"reassert" => ToServer::Reassert {
            epoch: from.epoch("epoch")?,
            former: from.session("former session")?,
            seq: from.seq("seq")?,
            mode: from.mode("mode")?,
            claim: read_claim(from)?,
            record: from.record()?,
        },
        b"page" => ToServer::Page {
            groups: from.groups("groups")?,
            epoch: from.epoch("epoch")?,
            former: from.session("former session")?,
            first: from.seq("first seq")?,
            last: from.seq("last seq")?,
            count: from.count("count")?,
            sum: from.number("sum")?,
        },
        b"nothing" => {
            ToServer::Nothing { groups: from.groups("groups")?, epoch: from.epoch("epoch")? }
        }
        b"reasserted" => ToServer::Reasserted {
            groups: from.groups("groups")?,
            epoch: from.epoch("epoch")?,
            former: from.session("former session")?,
            count: from.count("count")?,
            sum: from.number("sum")?,
        },
        _ => return Err(from.not("verb", verb, VERBS)),
    };
    // A later version may have added fields.
    Ok((session, message))
}

fn read_claim(from: &mut Reader<'_>) -> Result<Claim, Bad> {
    let claim = from.word("claim")?;
    match claim {
        b"held" => Ok(Claim::Held { token: from.token("token")? }),
        b"waiting" => Ok(Claim::Waiting {
            ticket: from.optional_ticket("ticket")?,
            upgrade: from.flag("upgrade")?,
            owners: from.owners("owners")?,
        }),
        _ => Err(from.not("claim", claim, "one of held, waiting")),
    }
}
