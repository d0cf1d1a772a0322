//! Delivers the frames of one direction when each is due.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

/// Bytes to be written at a time.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) due: Instant,
    pub(crate) bytes: Bytes,
    /// The connection ends after it.
    pub(crate) is_last: bool,
}

/// Writes parcels in the order in which they are due, until the sender is gone and nothing is left,
/// the last was written or nobody reads any more.
pub(crate) async fn deliver(mut to: OwnedWriteHalf, mut parcels: UnboundedReceiver<Parcel>) {
    let mut waiting = Waiting::default();
    let mut is_open = true;
    while is_open || waiting.next().is_some() {
        while let Some(parcel) = waiting.take(Instant::now()) {
            if to.write_all(&parcel.bytes).await.is_err() || parcel.is_last {
                return;
            }
        }
        let next = waiting.next();
        tokio::select! {
            came = parcels.recv(), if is_open => match came {
                Some(parcel) => waiting.put(parcel),
                None => is_open = false,
            },
            () = until(next), if next.is_some() => {}
        }
    }
}

async fn until(moment: Option<Instant>) {
    if let Some(moment) = moment {
        sleep_until(moment).await;
    }
}

/// Parcels that are not due yet; those with the same time in the order in which they came.
#[derive(Debug, Default)]
struct Waiting {
    order: BTreeMap<(Instant, u64), Parcel>,
    number: u64,
}

impl Waiting {
    fn put(&mut self, parcel: Parcel) {
        self.number += 1;
        self.order.insert((parcel.due, self.number), parcel);
    }

    fn next(&self) -> Option<Instant> {
        self.order.keys().next().map(|&(due, _)| due)
    }

    fn take(&mut self, now: Instant) -> Option<Parcel> {
        self.next().filter(|&due| due <= now)?;
        self.order.pop_first().map(|(_, parcel)| parcel)
    }
}
