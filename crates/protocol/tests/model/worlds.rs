//! The worlds that are searched.

use super::node::Op::{Downgrade, Read, Upgrade, Write};
use super::setup::{Budget, Setup};

const NONE: Budget = Budget {
    withdraws: 0,
    doubles: 0,
    losses: 0,
    any_losses: 0,
    passes: 0,
    node_crashes: 0,
    server_crashes: 0,
};
const WITHDRAWS: Budget = Budget { withdraws: 1, ..NONE };
const DOUBLES: Budget = Budget { doubles: 1, ..NONE };
const LOSES: Budget = Budget { any_losses: 1, ..NONE };
const LOSES_IN_TIME: Budget = Budget { any_losses: 1, passes: 1, ..NONE };
const CRASHES: Budget = Budget { server_crashes: 1, ..NONE };

macro_rules! worlds {
    ($($name:ident: $setup:expr;)*) => {
        $(pub(crate) fn $name() -> Setup {
            $setup
        })*
    };
}

// Nothing is lost and no time passes; messages overtake each other at will.
worlds! {
    two_writers: Setup::new([&[Write, Write], &[Write, Write]], NONE);
    read_and_write: Setup::new([&[Read, Write], &[Write, Read]], NONE);
    two_upgrades: Setup::new([&[Upgrade], &[Upgrade]], NONE);
    downgrade_and_write: Setup::new([&[Downgrade], &[Write, Read]], NONE);
    two_downgrades: Setup::new([&[Downgrade], &[Downgrade, Write]], NONE);
    lose_downgrade: Setup::new([&[Downgrade], &[Write]], LOSES);
    restart_downgrade: Setup::new([&[Downgrade], &[Write]], CRASHES).ordered();
    upgrade_and_write: Setup::new([&[Upgrade], &[Write, Read]], NONE);
    retry: Setup::new([&[Write, Read], &[Read, Write]], NONE).retry();
    retry_upgrade: Setup::new([&[Upgrade], &[Write, Read]], NONE).retry();
}

// A thread gives up; a message comes twice; one is lost.
worlds! {
    withdraw: Setup::new([&[Write, Write], &[Read]], WITHDRAWS);
    withdraw_upgrade: Setup::new([&[Upgrade], &[Write]], WITHDRAWS);
    withdraw_retry: Setup::new([&[Write, Write], &[Read]], WITHDRAWS).retry();
    withdraw_and_lose: Setup::new([&[Write], &[Read]], Budget { losses: 1, ..WITHDRAWS });
    double: Setup::new([&[Write, Write], &[Read]], DOUBLES);
    double_upgrade: Setup::new([&[Upgrade], &[Read]], DOUBLES);
    lose: Setup::new([&[Write], &[Write]], LOSES_IN_TIME);
    lose_read: Setup::new([&[Write, Write], &[Read]], LOSES);
    lose_upgrade: Setup::new([&[Upgrade], &[Write]], LOSES);
    lose_retry: Setup::new([&[Write], &[Write]], LOSES_IN_TIME).retry();
}

// What is wanted changes, and what is held goes on under other numbers.
worlds! {
    wish_read: Setup::new([&[Read], &[Write]], WITHDRAWS);
    wish_upgrade: Setup::new([&[Upgrade], &[Write]], Budget { withdraws: 2, ..NONE });
    wish_upgrade_in_order:
        Setup::new([&[Upgrade], &[Write]], Budget { withdraws: 2, ..NONE }).ordered();
    wish_restart:
        Setup::new([&[Read], &[Write]], Budget { withdraws: 1, ..CRASHES }).ordered().connected();
}

// The server is killed, and comes back with what is on its disk.
worlds! {
    restart_alone: Setup::new([&[Write, Read], &[]], CRASHES);
    restart: Setup::new([&[Write, Write], &[Read, Write]], CRASHES).ordered();
    restart_upgrades: Setup::new([&[Upgrade], &[Upgrade]], CRASHES).ordered();
    restart_retry: Setup::new([&[Write], &[Read, Write]], CRASHES).ordered().retry();
    restart_withdraw:
        Setup::new([&[Write], &[Upgrade]], Budget { withdraws: 1, ..CRASHES }).ordered();
    reconnect: Setup::new([&[Write], &[Read, Write]], CRASHES).ordered().connected();
    reconnect_upgrade: Setup::new([&[Upgrade], &[Read]], CRASHES).ordered().connected();
    slow_disk: Setup::new([&[Write], &[Write]], CRASHES).ordered().cold();
    slow_disk_reconnect: Setup::new([&[Write], &[Write]], CRASHES).ordered().cold().connected();
}

// A node dies, or its lease ends.
worlds! {
    node_crash: {
        let budget = Budget { node_crashes: 1, passes: 1, ..NONE };
        Setup::new([&[Write], &[Write]], budget).short_leases()
    };
    lease_alone: {
        let budget = Budget { passes: 4, ..NONE };
        Setup::new([&[Write], &[]], budget).short_leases().ordered()
    };
    leases: {
        let budget = Budget { passes: 5, ..NONE };
        Setup::new([&[Write], &[Write]], budget).short_leases().ordered().prompt()
    };
}

// Larger ones.
worlds! {
    many_downgrades: Setup::new([&[Downgrade, Write], &[Write, Read]], NONE);
    many_upgrades: Setup::new([&[Upgrade, Read], &[Upgrade, Write]], NONE);
    lose_in_time:
        Setup::new([&[Write], &[Read]], Budget { any_losses: 1, passes: 2, ..NONE });
    restart_in_disorder: Setup::new([&[Write], &[Write]], CRASHES);
    slow_disk_in_disorder: Setup::new([&[Write], &[Write]], CRASHES).cold();
    node_crash_in_time: {
        let budget = Budget { node_crashes: 1, passes: 2, ..NONE };
        Setup::new([&[Write], &[Write]], budget).short_leases()
    };
    late_leases: {
        let budget = Budget { passes: 3, ..NONE };
        Setup::new([&[Write], &[Write]], budget).short_leases().ordered()
    };
    long_leases: {
        let budget = Budget { passes: 6, ..NONE };
        Setup::new([&[Write], &[Write]], budget).short_leases().ordered().prompt()
    };
}
