//! How nodes find servers: they ask the store who owns a group, and notice when a way is open
//! again.

use lockspan_protocol::GroupSet;
use lockspan_protocol::cache::Input;

use super::nodes::server_id;
use super::{Event, World};
use crate::words::{self, Machine};

/// After how long a node that was not told who owns a group asks again.
const ASK_AGAIN: u64 = 200_000;

impl World {
    /// The cache wants to know who owns these groups.
    pub(super) fn locate(&mut self, number: u8, groups: GroupSet) {
        let node = &mut self.nodes[usize::from(number)];
        node.asking = node.asking.or(groups);
        self.ask_store_for(number, groups);
        self.ask_later(number);
    }

    /// Asks who owns these groups. A server that is alone is known to everybody.
    fn ask_store_for(&mut self, number: u8, groups: GroupSet) {
        let life = self.nodes[usize::from(number)].life;
        if self.cluster.is_none() {
            let at = self.now + 1;
            let owners = vec![(0, GroupSet::ALL)];
            self.queue.push(at, Event::Told { node: number, life, owners });
            return;
        }
        let link = (Machine::Node(number), Machine::Store);
        let event = || Event::Ask { node: number, life, groups };
        self.send(link, || format!("who has {}?", words::groups(groups)), event);
    }

    pub(super) fn store_is_asked(&mut self, number: u8, life: u32, groups: GroupSet) {
        let Some(cluster) = &self.cluster else { return };
        let owners = cluster.owners(groups);
        let link = (Machine::Store, Machine::Node(number));
        let words = owners.clone();
        let event = || Event::Told { node: number, life, owners: owners.clone() };
        let text = || {
            let words = words
                .iter()
                .map(|(server, groups)| format!("server {server}: {}", words::groups(*groups)));
            words.collect::<Vec<_>>().join("; ")
        };
        self.send(link, text, event);
    }

    pub(super) fn node_told(&mut self, number: u8, owners: Vec<(u8, GroupSet)>) {
        for (server, groups) in owners {
            let node = &mut self.nodes[usize::from(number)];
            node.asking = node.asking.without(groups);
            let server = server_id(server);
            self.note(Machine::Node(number), || format!("{} at {server}", words::groups(groups)));
            self.node_input(number, Input::Route { groups, server });
        }
    }

    fn ask_later(&mut self, number: u8) {
        let node = &mut self.nodes[usize::from(number)];
        if !std::mem::replace(&mut node.asks_again, true) {
            let life = node.life;
            self.queue.push(self.now + ASK_AGAIN, Event::AskAgain { node: number, life });
        }
    }

    pub(super) fn ask_again(&mut self, number: u8) {
        let node = &mut self.nodes[usize::from(number)];
        node.asks_again = false;
        let groups = node.asking;
        if !groups.is_empty() {
            self.ask_store_for(number, groups);
            self.ask_later(number);
        }
    }

    /// The node will notice that the way to a server is open.
    pub(super) fn connect_soon(&mut self, number: u8, server: u8) {
        let node = &self.nodes[usize::from(number)];
        if node.is_up() {
            let life = node.life;
            let at = self.now + 2 * self.net.delay();
            self.queue.push(at, Event::Connected { node: number, life, server });
        }
    }

    pub(super) fn node_connected(&mut self, number: u8, server: u8) {
        let (node, other) = (Machine::Node(number), Machine::Server(server));
        if self.net.is_cut(node, other) || self.net.is_cut(other, node) {
            return;
        }
        self.note(node, || format!("connected to server {server}"));
        self.node_input(number, Input::Connected { server: server_id(server) });
    }
}
