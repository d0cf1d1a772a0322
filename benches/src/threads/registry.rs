//! The locks by name, each with its measurements compiled for it alone.

use super::locks::{self, Lock};
use super::{contended, starvation, uncontended};

/// A lock that the command line can choose.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    pub(crate) uncontended: fn(uncontended::Spec) -> uncontended::Sample,
    pub(crate) contended: fn(contended::Spec) -> contended::Sample,
    pub(crate) starvation: fn(starvation::Spec) -> starvation::Sample,
}

impl Entry {
    const fn of<L: Lock>() -> Self {
        Self {
            name: L::NAME,
            size: L::SIZE,
            uncontended: uncontended::sample::<L>,
            contended: contended::sample::<L>,
            starvation: starvation::sample::<L>,
        }
    }
}

/// Every lock, ours first.
pub(crate) fn all() -> Vec<Entry> {
    vec![
        Entry::of::<locks::Lockspan>(),
        Entry::of::<locks::LockspanStrict>(),
        Entry::of::<locks::ParkingLot012>(),
        Entry::of::<locks::ParkingLot013>(),
        Entry::of::<locks::ParkingLot012Fair>(),
        Entry::of::<locks::ParkingLot013Fair>(),
        Entry::of::<locks::StdRwLock>(),
        Entry::of::<locks::StdMutex>(),
        Entry::of::<locks::Tokio>(),
        #[cfg(target_os = "linux")]
        Entry::of::<super::pthread::Pthread<false>>(),
        #[cfg(target_os = "linux")]
        Entry::of::<super::pthread::Pthread<true>>(),
        Entry::of::<locks::Nothing>(),
    ]
}

/// The locks that `wanted` names, in its order; a name may end in `*`.
pub(crate) fn choose(wanted: &[String]) -> Result<Vec<Entry>, String> {
    let all = all();
    if wanted.is_empty() {
        return Ok(all);
    }
    let mut chosen: Vec<Entry> = Vec::new();
    for name in wanted {
        let before = chosen.len();
        for entry in &all {
            let named = match name.strip_suffix('*') {
                Some(prefix) => entry.name.starts_with(prefix),
                None => entry.name == name,
            };
            if named && chosen.iter().all(|other| other.name != entry.name) {
                chosen.push(*entry);
            }
        }
        if chosen.len() == before {
            let names: Vec<_> = all.iter().map(|entry| entry.name).collect();
            return Err(format!("no lock is called '{name}'; there are {}", names.join(", ")));
        }
    }
    Ok(chosen)
}
