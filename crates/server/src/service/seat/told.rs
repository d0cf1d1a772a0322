//! What `LS.REASSERT` has told of a session in the present epoch. `LS.REASSERTED` compares its
//! total with that, for all groups or some: so totals are kept by group, and no command adds up all
//! seqs.

use std::collections::BTreeMap;

use lockspan_protocol::{Epoch, Group, GroupSet, Seq};

use super::Seat;

/// The seqs of an epoch.
#[derive(Debug, Default)]
pub(super) struct Told {
    epoch: Option<Epoch>,
    /// Each with the group of its record.
    seqs: BTreeMap<Seq, Group>,
    /// How many there are in a group, and their sum.
    totals: BTreeMap<Group, (u32, u64)>,
}

impl Told {
    /// One more. No, if there are `max` already.
    fn add(&mut self, epoch: Epoch, seq: Seq, group: Group, max: usize) -> bool {
        if self.epoch != Some(epoch) {
            *self = Self { epoch: Some(epoch), ..Self::default() };
        }
        if self.seqs.len() >= max && !self.seqs.contains_key(&seq) {
            return false;
        }
        if let Some(before) = self.seqs.insert(seq, group)
            && let Some((count, sum)) = self.totals.get_mut(&before)
        {
            *count -= 1;
            *sum = sum.wrapping_sub(seq.0);
        }
        let (count, sum) = self.totals.entry(group).or_default();
        *count += 1;
        *sum = sum.wrapping_add(seq.0);
        true
    }

    fn of(&self, epoch: Epoch, groups: GroupSet) -> (u32, u64) {
        if self.epoch != Some(epoch) {
            return (0, 0);
        }
        let here = self.totals.iter().filter(|(group, _)| groups.contains(**group));
        here.fold((0, 0), |(counts, sums), (_, (count, sum))| {
            (counts + count, sums.wrapping_add(*sum))
        })
    }
}

impl Seat {
    /// `LS.REASSERT` has told of this seq. No, if there are `max` already.
    pub(in crate::service) fn told(
        &self,
        epoch: Epoch,
        seq: Seq,
        group: Group,
        max: usize,
    ) -> bool {
        self.lock().told.add(epoch, seq, group, max)
    }

    /// How many seqs of these groups `LS.REASSERT` has told of, and their sum.
    pub(in crate::service) fn told_of(&self, epoch: Epoch, groups: GroupSet) -> (u32, u64) {
        self.lock().told.of(epoch, groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_f76_totals_are_kept_by_group() {
        let epoch = |number| Epoch::new(number).expect("small");
        let mut told = Told::default();
        for number in 1..=1_000 {
            assert!(told.add(epoch(2), Seq(number), Group((number % 4) as u8), 1_000));
        }
        assert!(!told.add(epoch(2), Seq(2_000), Group(0), 1_000), "no more than that");
        assert!(told.add(epoch(2), Seq(8), Group(0), 1_000), "but the same again");
        assert_eq!(told.of(epoch(2), GroupSet::ALL), (1_000, 500_500));
        assert_eq!(told.totals.len(), 4, "so many are added up");
        let first = GroupSet::from_iter([Group(0)]);
        assert_eq!(told.of(epoch(2), first), (250, 4 * 250 * 251 / 2));
        // The same seq of another record.
        assert!(told.add(epoch(2), Seq(8), Group(1), 1_000));
        assert_eq!(told.of(epoch(2), first), (249, 4 * 250 * 251 / 2 - 8));
        assert_eq!(told.of(epoch(2), GroupSet::ALL), (1_000, 500_500));
        assert_eq!(told.of(epoch(3), GroupSet::ALL), (0, 0));
        assert!(told.add(epoch(3), Seq(1), Group(9), 1_000));
        assert_eq!(told.of(epoch(3), GroupSet::ALL), (1, 1), "a new epoch begins anew");
    }
}
