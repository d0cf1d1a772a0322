//! What belongs to places in line, in their order.
//!
//! Nearly always there is none, or one: so little memory is kept, and none is asked for again.

use std::collections::VecDeque;

use crate::line::Place;

/// Something for each of some places.
#[derive(Debug)]
pub(crate) struct Places<T>(VecDeque<(Place, T)>);

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Places<T> {
    /// Puts something where nothing is.
    pub(crate) fn insert(&mut self, place: Place, what: T) {
        if self.0.capacity() == 0 {
            self.0.reserve_exact(1);
        }
        match self.0.back() {
            Some(&(last, _)) if last > place => {
                let at = self.0.partition_point(|&(other, _)| other < place);
                self.0.insert(at, (place, what));
            }
            _ => self.0.push_back((place, what)),
        }
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        let at = self.find(place)?;
        Some(&mut self.0[at].1)
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let at = self.find(place)?;
        self.0.remove(at).map(|(_, what)| what)
    }

    pub(crate) fn first(&self) -> Option<(Place, &T)> {
        self.0.front().map(|(place, what)| (*place, what))
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        self.0.iter().map(|(place, what)| (*place, what))
    }

    pub(crate) fn has(&self, place: Place) -> bool {
        self.find(place).is_some()
    }

    /// How many are before a place.
    pub(crate) fn before(&self, place: Place) -> usize {
        self.0.partition_point(|&(other, _)| other < place)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, place: Place) -> Option<usize> {
        match self.0.front() {
            Some(&(first, _)) if first == place => Some(0),
            Some(_) => self.0.binary_search_by_key(&place, |&(other, _)| other).ok(),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_stay_in_order_however_they_come_and_go() {
        let mut places = Places::default();
        for place in [3, 5, 1, 9, 4] {
            places.insert(place, place * 10);
        }
        assert_eq!(places.first(), Some((1, &10)));
        assert_eq!((places.remove(5), places.remove(5), places.remove(2)), (Some(50), None, None));
        *places.get_mut(4).unwrap() = 7;
        let all: Vec<_> = places.iter().map(|(place, &what)| (place, what)).collect();
        assert_eq!(all, [(1, 10), (3, 30), (4, 7), (9, 90)]);
        assert_eq!([places.before(1), places.before(4), places.before(5)], [0, 2, 3]);
        assert!(places.len() == 4 && places.has(4) && !places.has(5));
        for place in [1, 9, 3, 4] {
            assert!(places.remove(place).is_some());
        }
        assert!(places.is_empty() && places.first().is_none());
    }
}
