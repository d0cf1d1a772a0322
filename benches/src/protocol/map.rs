//! The peer: a hash map of the standard library that takes a name in and out again, and does
//! nothing else.

use std::collections::HashMap;
use std::hint::black_box;

use lockspan_protocol::Record;

use super::table::record;
use super::{Access, Machine};

struct Map {
    map: HashMap<Record, u64>,
    inputs: Vec<Record>,
}

pub(super) fn churn(records: usize) -> Box<dyn Machine> {
    let map = (0..records).map(|number| (record(number), number as u64)).collect();
    Box::new(Map { map, inputs: Vec::new() })
}

impl Machine for Map {
    fn prepare(&mut self, access: &mut Access, steps: usize) {
        self.inputs.extend((0..steps / 2).map(|_| record(access.next())));
    }

    fn skip(&mut self) -> usize {
        std::mem::take(&mut self.inputs).len() * 2
    }

    fn run(&mut self) -> usize {
        let mut steps = 0;
        for name in self.inputs.drain(..) {
            if let Some((name, value)) = self.map.remove_entry(&name) {
                self.map.insert(name, black_box(value + 1));
                steps += 2;
            }
        }
        steps
    }
}
