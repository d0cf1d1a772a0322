//! One record on this node, and the map of all that are in use or cached.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use hashbrown::HashTable;
use lockspan_protocol::{Mode, Record as Name, Tick, Token};
use lockspan_thread::gate::{Gate, Pass, Use};

use crate::line::Line;
use crate::meter::Metered;

/// The maps between which names are spread, so that threads that look for different records seldom
/// meet.
const SHARDS: usize = 64;

/// Locks a mutex. Nothing in this crate panics while it holds one, and if it did, the state behind
/// it would still be the truth about what the server was told.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a writer of the present grant has become a reader. It only decides what the server is
/// told: one that is not seen costs somebody a wait, and nothing else.
///
/// Set before the gate is changed (release), and looked at after the gate (acquire): whoever sees
/// that reader inside sees this too.
#[derive(Debug, Default)]
pub(crate) struct Downgraded(AtomicBool);

impl Downgraded {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The record was granted: nobody is inside from before.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// One record.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) gate: Gate,
    /// Of the present opening; written before the gate is opened.
    token: AtomicI64,
    /// When it was last used, for those who look for idle records.
    used: AtomicU64,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nothing is counted"))]
    pub(crate) metered: Metered,
    pub(crate) downgraded: Downgraded,
    pub(crate) line: Mutex<Line>,
}

impl Entry {
    fn new(name: Name) -> Self {
        Self {
            name,
            gate: Gate::new(),
            token: AtomicI64::new(0),
            used: AtomicU64::new(0),
            metered: Metered::default(),
            downgraded: Downgraded::default(),
            line: Mutex::default(),
        }
    }

    /// The entry of a record that is in no map.
    pub(crate) fn alone(name: &Name) -> Arc<Self> {
        Arc::new(Self::new(name.clone()))
    }

    /// The token of the present opening. Who sees one that came after a loss also sees the loss: so
    /// a guard of before is never taken for good with the token of somebody after it.
    #[inline]
    pub(crate) fn token(&self) -> Token {
        Token::from_number(self.token.load(Ordering::Acquire)).unwrap_or_default()
    }

    pub(crate) fn set_token(&self, token: Token) {
        self.token.store(token.number(), Ordering::Release);
    }

    /// Somebody uses it.
    #[inline]
    pub(crate) fn touch(&self, now: Tick) {
        self.used.store(now.0, Ordering::Relaxed);
    }

    /// When somebody last began to use it.
    #[inline]
    pub(crate) fn used(&self) -> Tick {
        Tick(self.used.load(Ordering::Relaxed))
    }

    /// Goes in without asking, if the record is open for it.
    #[inline]
    pub(crate) fn enter(&self, mode: Mode) -> Option<Pass> {
        self.gate.enter(if mode == Mode::Read { Use::Read } else { Use::Write })
    }
}

type Shard = HashTable<Arc<Entry>>;

/// All records that are in use or cached.
#[derive(Debug)]
pub(crate) struct Entries {
    shards: Vec<RwLock<Shard>>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl Entries {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: hashbrown::DefaultHashBuilder::default(),
        }
    }

    fn hash_of(&self, name: &Name) -> u64 {
        self.hasher.hash_one(name.as_bytes())
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        // The low bits choose the place within a map, the highest are compared there.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// The entry of this name, if there is one.
    #[cfg(feature = "metrics")]
    pub(crate) fn find(&self, name: &Name) -> Option<Arc<Entry>> {
        let hash = self.hash_of(name);
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        shard.find(hash, |entry| entry.name == *name).cloned()
    }

    /// The entry of this name; a new one if there is none.
    pub(crate) fn get(&self, name: &Name) -> Arc<Entry> {
        let hash = self.hash_of(name);
        let shard = self.shard(hash);
        let is_it = |entry: &Arc<Entry>| entry.name == *name;
        if let Some(entry) = shard.read().unwrap_or_else(PoisonError::into_inner).find(hash, is_it)
        {
            return Arc::clone(entry);
        }
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let slot = shard.entry(hash, is_it, |entry| self.hash_of(&entry.name));
        Arc::clone(slot.or_insert_with(|| Arc::new(Entry::new(name.clone()))).get())
    }

    /// Those for which this holds.
    pub(crate) fn which(&self, is_so: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        let mut chosen = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            chosen.extend(shard.iter().filter(|entry| is_so(entry)).cloned());
        }
        chosen
    }

    /// Forgets the records that nobody has in hand and that have nothing to remember.
    pub(crate) fn tidy(&self) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            // Who has none in hand gets one through this map, so the count can't rise meanwhile.
            shard.retain(|entry| Arc::strong_count(entry) > 1 || !lock(&entry.line).is_blank());
        }
    }
}
