//! The worlds of two servers that are searched.

use super::setup::{Budget, Moves};
use crate::node::Op::{Read, Write};

const NONE: Budget = Budget { moves: 0, suspicions: 0, delays: 0, passes: 0, cuts: 0, crashes: 0 };

macro_rules! worlds {
    ($($name:ident: $setup:expr;)*) => {
        $(pub(crate) fn $name() -> Moves {
            $setup
        })*
    };
}

// The group is moved.
worlds! {
    moved: {
        let budget = Budget { moves: 1, delays: 1, passes: 5, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held()
    };
    moved_in_disorder: {
        let budget = Budget { moves: 1, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().any_order()
    };
    moved_reader: {
        let budget = Budget { moves: 1, delays: 1, passes: 5, ..NONE };
        Moves::new([&[Read], &[Write]], budget).held().both()
    };
    // The answer of the second owner comes when the group has moved back.
    moved_back: {
        let budget = Budget { moves: 1, cuts: 1, passes: 5, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().both().unanswered()
    };
    moved_back_late: {
        let budget = Budget { moves: 1, delays: 3, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().asked().both().unanswered()
    };
}

// The owner is replaced while it may act.
worlds! {
    suspected: {
        let budget = Budget { suspicions: 1, delays: 1, passes: 6, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().news()
    };
    suspected_late: {
        let budget = Budget { suspicions: 1, delays: 1, passes: 6, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().asked().news().confirms()
    };
}

// Larger ones.
worlds! {
    moved_late: {
        let budget = Budget { moves: 1, delays: 2, passes: 4, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().asked()
    };
    moved_and_crash: {
        let budget = Budget { moves: 1, crashes: 1, delays: 1, passes: 5, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held()
    };
    suspected_cut: {
        let budget = Budget { suspicions: 1, cuts: 1, delays: 1, passes: 6, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().news()
    };
    suspected_skewed: {
        let budget = Budget { suspicions: 1, delays: 1, passes: 7, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().news().skewed()
    };
    moved_and_suspected: {
        let budget = Budget { moves: 1, suspicions: 1, delays: 1, passes: 5, ..NONE };
        Moves::new([&[Write], &[Write]], budget).held().asked().news()
    };
}
