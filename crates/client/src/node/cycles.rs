//! Who waits for whom on this node, by the names of those who wait: cycles are refused here, and
//! the server is told who keeps what it wants back.

use std::sync::Arc;

use lockspan_protocol::cache::Input;
use lockspan_protocol::{LocalWait, Owner};

use super::{Core, Node};
use crate::entry::{Entry, lock};

impl Node {
    /// Somebody with a name gets in line; refused if that closes a cycle on this node.
    pub(crate) fn waits(&self, core: &mut Core, owner: Owner, entry: &Arc<Entry>) {
        core.waits.entry(owner).or_default().push(Arc::clone(entry));
    }

    /// Somebody with a name is not in line any more.
    pub(crate) fn waited(&self, core: &mut Core, owner: Owner, entry: &Arc<Entry>) {
        if let Some(entries) = core.waits.get_mut(&owner) {
            if let Some(at) = entries.iter().position(|other| Arc::ptr_eq(other, entry)) {
                entries.swap_remove(at);
            }
            if entries.is_empty() {
                core.waits.remove(&owner);
            }
        }
        // What the server was told about who waits here may not be true any more.
        self.report(core);
    }

    /// Everybody that `from` wait for on this node, over others, and the waits on the way.
    fn reachable(core: &Core, from: &[Owner]) -> (Vec<Owner>, Vec<LocalWait>) {
        let mut owners = from.to_vec();
        let mut on_the_way = Vec::new();
        let mut at = 0;
        while at < owners.len() {
            let owner = owners[at];
            for entry in core.waits.get(&owner).into_iter().flatten() {
                let waits = lock(&entry.line).waits();
                for wait in waits.into_iter().filter(|wait| wait.waiter == owner) {
                    if !owners.contains(&wait.holder) {
                        owners.push(wait.holder);
                    }
                    on_the_way.push(wait);
                }
            }
            at += 1;
        }
        on_the_way.sort_unstable();
        on_the_way.dedup();
        (owners, on_the_way)
    }

    /// The cycle on this node in which an owner waits for itself, if there is one.
    pub(crate) fn cycle(&self, core: &Core, owner: Owner) -> Option<Vec<Owner>> {
        let (owners, waits) = Self::reachable(core, &[owner]);
        let closes = waits.iter().any(|wait| wait.holder == owner);
        closes.then(|| path(owner, &owners, &waits))
    }

    /// Tells the cache who keeps what is wanted back, where that has changed.
    pub(super) fn report(&self, core: &mut Core) {
        if core.draining.is_empty() {
            return;
        }
        let draining = std::mem::take(&mut core.draining);
        for entry in draining {
            let (is_draining, holders, reported) = {
                let line = lock(&entry.line);
                (line.drain.is_some(), line.named.clone(), line.reported.clone())
            };
            if !is_draining {
                continue;
            }
            let (_, waits) = Self::reachable(core, &holders);
            let report = (holders, waits);
            if reported.as_ref() != Some(&report) {
                lock(&entry.line).reported = Some(report.clone());
                let (holders, waits) = report;
                core.inbox.push_back(Input::Busy { record: entry.name.clone(), holders, waits });
            }
            core.draining.push(entry);
        }
    }
}

/// The way from an owner to itself.
fn path(owner: Owner, owners: &[Owner], waits: &[LocalWait]) -> Vec<Owner> {
    // Each owner was found through one that comes before it; going back from whoever waits for the
    // first gives the cycle in reverse.
    let mut cycle = Vec::new();
    let mut last = owner;
    while let Some(wait) = waits.iter().find(|wait| wait.holder == last) {
        if cycle.contains(&wait.waiter) || !owners.contains(&wait.waiter) {
            break;
        }
        cycle.push(wait.waiter);
        last = wait.waiter;
        if last == owner {
            break;
        }
    }
    cycle.reverse();
    cycle
}
