//! Those who have connected and not shown yet who they are: in their handshake, or before a login.
//!
//! From one network there may be a quarter of all connections, and a quarter of all handshakes
//! under way at a time: whoever opens more of them keeps out nobody but their neighbours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use crate::users::Place;

/// However few connections are allowed, so many strangers may come from one network.
const LEAST: usize = 16;

/// All of them, by their networks.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// How many there may be.
    max: usize,
    /// How many may be of one network.
    max_of_one: usize,
    /// Handshakes of one network at a time.
    turns: usize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    count: usize,
    networks: HashMap<Place, Network>,
}

#[derive(Debug)]
struct Network {
    count: usize,
    turns: Arc<Semaphore>,
}

impl Strangers {
    /// Of a server that allows so many connections, and so many handshakes at a time.
    pub(crate) fn new(connections: usize, handshakes: usize) -> Arc<Self> {
        let max = connections.max(LEAST);
        let (max_of_one, turns) = ((max / 4).max(LEAST), (handshakes / 4).max(1));
        Arc::new(Self { max, max_of_one, turns, all: Mutex::default() })
    }

    /// Takes one in, or says why not.
    pub(crate) fn enter(self: &Arc<Self>, from: Place) -> Result<Stranger, String> {
        let network = from.network();
        let mut all = crate::lock(&self.all);
        if all.count >= self.max {
            return Err(format!("{} have yet to log in", self.max));
        }
        let turns = || Arc::new(Semaphore::new(self.turns));
        let new = || Network { count: 0, turns: turns() };
        let there = all.networks.entry(network).or_insert_with(new);
        if there.count >= self.max_of_one {
            return Err(format!("{} from there have yet to log in", self.max_of_one));
        }
        there.count += 1;
        let turns = Arc::clone(&there.turns);
        all.count += 1;
        Ok(Stranger { among: Arc::clone(self), network, turns })
    }
}

/// The place of one, as long as it is kept.
#[derive(Debug)]
pub(crate) struct Stranger {
    among: Arc<Strangers>,
    network: Place,
    /// One for each handshake that its network may have under way.
    pub(crate) turns: Arc<Semaphore>,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut all = crate::lock(&self.among.all);
        all.count -= 1;
        if let Some(there) = all.networks.get_mut(&self.network) {
            there.count -= 1;
            if there.count == 0 {
                all.networks.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> Place {
        Place::Ip([10, 0, 0, last].into())
    }

    #[test]
    fn one_network_keeps_no_other_out() {
        let strangers = Strangers::new(80, 8);
        let mut inside: Vec<_> = (0..20).map(|_| strangers.enter(from(1)).expect("room")).collect();
        let why = strangers.enter(from(1)).expect_err("too many");
        assert_eq!(why, "20 from there have yet to log in");
        let other = strangers.enter(from(2)).expect("another network");
        assert_eq!((inside[0].turns.available_permits(), other.turns.available_permits()), (2, 2));
        inside.pop();
        strangers.enter(from(1)).expect("one has gone");
        drop((inside, other));
        assert!(crate::lock(&strangers.all).networks.is_empty(), "nothing is kept of them");
        let many: Vec<_> = (0..80).map(|at| strangers.enter(from(at)).expect("room")).collect();
        assert_eq!(strangers.enter(from(90)).expect_err("too many"), "80 have yet to log in");
        drop(many);
        assert_eq!(crate::lock(&strangers.all).count, 0);
    }
}
