//! What `LS.REASSERT` has told of a session, for the totals of `LS.REASSERTED`.

use std::collections::BTreeMap;

use lockspan_protocol::{Epoch, Group, GroupSet, Seq};

/// The seqs that were told in one epoch. How many there are in a group, and their sum, is counted
/// as they come: a total takes as many steps as there are groups, however many seqs there are.
#[derive(Debug, Default)]
pub(super) struct Told {
    epoch: Option<Epoch>,
    seqs: BTreeMap<Seq, Group>,
    of_group: BTreeMap<Group, (u32, u64)>,
}

impl Told {
    /// One more seq. False if there are `max` already.
    pub(super) fn add(&mut self, epoch: Epoch, seq: Seq, group: Group, max: usize) -> bool {
        if self.epoch != Some(epoch) {
            *self = Self { epoch: Some(epoch), ..Self::default() };
        }
        if self.seqs.len() >= max && !self.seqs.contains_key(&seq) {
            return false;
        }
        if let Some(before) = self.seqs.insert(seq, group) {
            let (count, sum) = self.of_group.entry(before).or_default();
            (*count, *sum) = (*count - 1, sum.wrapping_sub(seq.0));
        }
        let (count, sum) = self.of_group.entry(group).or_default();
        (*count, *sum) = (*count + 1, sum.wrapping_add(seq.0));
        true
    }

    /// How many seqs of these groups were told in this epoch, and their sum.
    pub(super) fn total(&self, epoch: Epoch, groups: GroupSet) -> (u32, u64) {
        let of_epoch = self.of_group.iter().filter(|_| self.epoch == Some(epoch));
        let of_groups = of_epoch.filter(|(group, _)| groups.contains(**group));
        of_groups
            .fold((0, 0), |(count, sum), (_, (more, seqs))| (count + more, seqs.wrapping_add(sum)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_of_the_groups_and_the_epoch_that_are_asked_for() {
        let epoch = |number| Epoch::new(number).expect("small");
        let groups = |all: &[u8]| all.iter().map(|&group| Group(group)).collect::<GroupSet>();
        let mut told = Told::default();
        for (seq, group) in [(1, 0), (2, 0), (7, 1), (7, 1), (9, 200)] {
            assert!(told.add(epoch(1), Seq(seq), Group(group), 4));
        }
        assert!(!told.add(epoch(1), Seq(10), Group(0), 4), "there are four");
        assert!(told.add(epoch(1), Seq(9), Group(200), 4), "which may be told again");
        assert!(told.add(epoch(1), Seq(2), Group(1), 4), "of another group");
        assert_eq!(told.total(epoch(1), groups(&[0])), (1, 1));
        assert_eq!(told.total(epoch(1), groups(&[0, 1])), (3, 10));
        assert_eq!(told.total(epoch(1), groups(&[200])), (1, 9));
        assert_eq!(told.total(epoch(2), groups(&[0, 1])), (0, 0));
        assert!(told.add(epoch(2), Seq(3), Group(1), 4));
        assert_eq!(told.total(epoch(2), groups(&[0, 1])), (1, 3));
        assert_eq!(told.total(epoch(1), groups(&[0, 1])), (0, 0), "it is over");
    }
}
