//! The counts of one datatype, and where they are found. Each process has its own: a child of a
//! fork begins to count anew.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, OnceLock};

use lockspan_park::fork::ProcessLocal;
use lockspan_thread::percpu::Counter;
use metrics::{Key, Label};

use super::names;
use crate::entry::lock;

/// Datatypes that are counted apart; all further ones are counted together.
pub(crate) const DATATYPES: usize = 32;

/// What the rest is called.
const OTHER: &str = "other";

/// The longest name of a datatype that is shown whole.
const NAME: usize = 100;

static TALLIES: ProcessLocal<Tallies> = ProcessLocal::new();

#[derive(Default)]
struct Tallies {
    /// The datatypes that came first, in this order.
    first: [OnceLock<Tally>; DATATYPES],
    rest: OnceLock<Tally>,
    /// Held by whoever looks for a place for a datatype that is new.
    new: Mutex<()>,
}

fn tallies() -> &'static Tallies {
    TALLIES.get_or_init(Tallies::default)
}

/// What was counted of one datatype, reads and writes apart where there are two.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The first that was counted here, as it is; another may look the same to people.
    datatype: Box<[u8]>,
    pub(super) label: Label,
    /// Acquires of a record that was cached.
    pub(super) cached: [Counter; 2],
    /// Acquires that were sent to the server.
    pub(super) sent: [AtomicU64; 2],
    pub(super) grants: [AtomicU64; 2],
    pub(super) handovers: AtomicU64,
    pub(super) revokes: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) waiting: AtomicI64,
    pub(super) wait_key: Key,
    pub(super) hold_key: Key,
}

impl Tally {
    fn new(datatype: &[u8], shown: String) -> Self {
        let label = Label::new("datatype", shown);
        let key = |name: &'static str| Key::from_parts(name, vec![label.clone()]);
        Self {
            datatype: datatype.into(),
            wait_key: key(names::WAIT),
            hold_key: key(names::HOLD),
            label,
            cached: Default::default(),
            sent: Default::default(),
            grants: Default::default(),
            handovers: AtomicU64::default(),
            revokes: AtomicU64::default(),
            retries: AtomicU64::default(),
            lost: AtomicU64::default(),
            waiting: AtomicI64::default(),
        }
    }

    /// That of a datatype of this process, which has one of its own from then on if there is room.
    pub(crate) fn of(datatype: &[u8]) -> &'static Self {
        find(datatype).unwrap_or_else(|| Self::begin(datatype))
    }

    /// That of a datatype which somebody else names.
    pub(super) fn known(datatype: &[u8]) -> &'static Self {
        let seen = || looks_like(&shown(datatype));
        find(datatype).or_else(seen).unwrap_or_else(rest)
    }

    #[cold]
    fn begin(datatype: &[u8]) -> &'static Self {
        let shown = shown(datatype);
        if shown == OTHER {
            return rest();
        }
        let tallies = tallies();
        let _alone = lock(&tallies.new);
        // Two samples of one name would overwrite each other: what looks the same is one.
        if let Some(tally) = looks_like(&shown) {
            return tally;
        }
        let free = tallies.first.iter().find(|place| place.get().is_none());
        free.map_or_else(rest, |place| place.get_or_init(|| Self::new(datatype, shown)))
    }

    /// All there are.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        first().chain(tallies().rest.get())
    }
}

fn first() -> impl Iterator<Item = &'static Tally> {
    tallies().first.iter().map_while(OnceLock::get)
}

fn find(datatype: &[u8]) -> Option<&'static Tally> {
    first().find(|tally| *tally.datatype == *datatype)
}

/// As people see it.
fn shown(datatype: &[u8]) -> String {
    String::from_utf8_lossy(datatype).chars().take(NAME).collect()
}

fn looks_like(shown: &str) -> Option<&'static Tally> {
    first().find(|tally| tally.label.value() == shown)
}

fn rest() -> &'static Tally {
    tallies().rest.get_or_init(|| Tally::new(OTHER.as_bytes(), OTHER.to_owned()))
}
