//! Replies that are not known yet, and those that wait behind them.
//!
//! Each reply has a number, in the order of the commands. One that is not known yet is *open*;
//! those behind it are *held back* until it is known, so that they go out in order. Replies that
//! are known and follow each other are kept as one part, so that to send them all takes few steps.

use std::collections::VecDeque;

use bytes::BytesMut;
use lockspan_wire::{Protocol, Value, put_value};

/// What a part costs beside its bytes.
const PART: usize = 96;

/// The replies of one connection, from the first that is open.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    /// In the order of their numbers; the first is open.
    parts: VecDeque<Part>,
    /// The number of the next reply.
    next: u64,
    open: usize,
    /// What the parts that are known cost.
    bytes: usize,
}

#[derive(Debug)]
struct Part {
    /// The number of its first reply.
    number: u64,
    /// None: it is one reply, which is open.
    known: Option<BytesMut>,
}

impl HeldBack {
    /// The next reply is known; `put` writes it. It goes to `out` unless an earlier one is open.
    pub(super) fn reply(&mut self, out: &mut BytesMut, put: impl FnOnce(&mut BytesMut)) {
        let number = self.next;
        self.next += 1;
        match self.parts.back_mut() {
            None => put(out),
            Some(Part { known: Some(bytes), .. }) => {
                let before = bytes.len();
                put(bytes);
                self.bytes += bytes.len() - before;
            }
            Some(Part { known: None, .. }) => {
                let mut bytes = BytesMut::new();
                put(&mut bytes);
                self.bytes += PART + bytes.len();
                self.parts.push_back(Part { number, known: Some(bytes) });
            }
        }
    }

    /// The next reply comes later; its number.
    pub(super) fn open(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open += 1;
        self.parts.push_back(Part { number, known: None });
        number
    }

    /// An open reply is known now. What may be sent goes to `out`.
    pub(super) fn fill(
        &mut self,
        number: u64,
        (value, protocol): (&Value, Protocol),
        out: &mut BytesMut,
    ) {
        let Ok(at) = self.parts.binary_search_by_key(&number, |part| part.number) else { return };
        if self.parts[at].known.is_some() {
            return;
        }
        self.open -= 1;
        if at > 0 {
            let mut bytes = BytesMut::new();
            put_value(value, protocol, &mut bytes);
            self.bytes += PART + bytes.len();
            self.parts[at].known = Some(bytes);
            return;
        }
        self.parts.pop_front();
        put_value(value, protocol, out);
        while let Some(known) = self.parts.pop_front_if(|part| part.known.is_some()) {
            let bytes = known.known.unwrap_or_default();
            self.bytes -= PART + bytes.len();
            out.extend_from_slice(&bytes);
        }
    }

    /// Every reply that is open is this one.
    pub(super) fn fill_all(&mut self, value: (&Value, Protocol), out: &mut BytesMut) {
        let open = self.parts.iter().filter(|part| part.known.is_none());
        let open: Vec<_> = open.map(|part| part.number).collect();
        open.into_iter().for_each(|number| self.fill(number, value, out));
    }

    /// The number of the first reply that may not be sent yet.
    pub(super) fn first(&self) -> u64 {
        self.parts.front().map_or(self.next, |part| part.number)
    }

    /// How many replies are open.
    pub(super) fn open_count(&self) -> usize {
        self.open
    }

    /// What those cost that are known.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.parts = VecDeque::new();
        (self.open, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Open replies become known in any order, and replies come in between: all go out once and
        /// in order, as soon as all before them are known, and nothing is counted at the end.
        #[test]
        fn replies_go_out_in_the_order_of_their_commands(
            steps in proptest::collection::vec((0..3_u8, any::<usize>()), 0..60),
        ) {
            let (mut held, mut out) = (HeldBack::default(), BytesMut::new());
            let (mut open, mut count) = (Vec::new(), 0_i64);
            let mut known = Vec::new();
            let end = std::iter::repeat_n((2, 0), steps.len());
            for (what, which) in steps.into_iter().chain(end) {
                match what {
                    0 => {
                        held.reply(&mut out, |to| put_value(&count.into(), Protocol::Resp3, to));
                        known.push(true);
                        count += 1;
                    }
                    1 => {
                        open.push((held.open(), count));
                        known.push(false);
                        count += 1;
                    }
                    _ if open.is_empty() => {}
                    _ => {
                        let (number, value) = open.swap_remove(which % open.len());
                        known[usize::try_from(value).expect("small")] = true;
                        let value = Value::from(value);
                        held.fill(number, (&value, Protocol::Resp3), &mut out);
                        held.fill(number, (&Value::Null, Protocol::Resp3), &mut out);
                    }
                }
                let sent = known.iter().take_while(|known| **known).count();
                let expected: String = (0..sent).map(|at| format!(":{at}\r\n")).collect();
                prop_assert_eq!(&out[..], expected.as_bytes());
                prop_assert_eq!(held.first(), sent as u64);
                prop_assert_eq!(held.open_count(), open.len());
                prop_assert_eq!(held.bytes() == 0, !known[sent..].contains(&true));
            }
            prop_assert!(held.is_empty() && held.bytes() == 0);
        }
    }

    #[test]
    fn service_f63_replies_that_follow_each_other_are_one_part() {
        let (mut held, mut out) = (HeldBack::default(), BytesMut::new());
        let first = held.open();
        for _ in 0..10_000 {
            held.reply(&mut out, |out| put_value(&Value::OK, Protocol::Resp3, out));
        }
        assert_eq!((held.parts.len(), held.bytes()), (2, PART + 50_000));
        held.fill(first, (&Value::Null, Protocol::Resp3), &mut out);
        assert_eq!((out.len(), held.bytes()), (50_003, 0));
    }
}
