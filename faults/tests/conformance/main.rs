//! One suite of behaviours against every kind of service: inside the process, over TCP, over a Unix
//! socket, on Redis without and with caching.

#![forbid(unsafe_code)]

#[path = "../../../crates/redis/tests/redis/server.rs"]
#[expect(dead_code, reason = "the tests of Redis alone need more of it")]
mod redis_server;
mod service;
mod sets;
mod suite;
mod timeouts;
mod upgrades;

use service::Service;

/// All of them.
mod behaviour {
    pub(crate) use crate::sets::*;
    pub(crate) use crate::suite::*;
    pub(crate) use crate::timeouts::*;
    pub(crate) use crate::upgrades::*;
}

macro_rules! suite {
    ($($name:ident,)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                crate::behaviour::$name(&crate::Service::memory(stringify!($name))).await;
            })*
        }
        mod tcp {
            $(#[tokio::test]
            async fn $name() {
                crate::behaviour::$name(&crate::Service::tcp().await).await;
            })*
        }
        mod unix {
            $(#[tokio::test]
            async fn $name() {
                crate::behaviour::$name(&crate::Service::unix().await).await;
            })*
        }
        mod redis {
            $(#[tokio::test]
            async fn $name() {
                crate::behaviour::$name(&crate::Service::redis().await).await;
            })*
        }
        mod redis_cached {
            $(#[tokio::test]
            async fn $name() {
                crate::behaviour::$name(&crate::Service::redis_cached().await).await;
            })*
        }
    };
}

suite! {
    a_cached_record_is_taken_again_without_a_message,
    the_other_node_gets_what_this_one_has_cached,
    a_task_that_never_waits_does_not_keep_a_cached_record,
    readers_share_and_a_writer_waits_for_all,
    readers_share_when_the_writer_between_them_has_given_up,
    nobody_is_in_beside_a_writer,
    a_wait_that_is_dropped_leaves_the_line,
    try_fetches_what_another_node_has_cached_and_does_not_use,
    a_reader_is_upgraded_and_the_second_upgrader_refused,
    an_upgrade_that_is_dropped_lets_go,
    without_caching_a_release_goes_back_at_once,
    idle_records_go_back_and_so_do_those_beyond_the_number,
    owners_in_a_deadlock_are_told_so,
    owners_of_one_node_in_a_deadlock_are_told_so,
    closing_loses_guards_and_ends_waits,
    bad_names_are_refused,
    tokens_of_writers_rise_and_readers_have_the_last,
    a_writer_is_not_starved_by_readers_nor_they_by_writers,
    waiting_writers_of_two_nodes_take_turns,
    what_is_held_by_a_node_that_is_gone_is_free,
    threads_without_a_runtime_exclude_each_other,
    threads_try_and_are_told_who_is_in_the_way,
    an_upgrade_that_gives_up_goes_on_reading_and_may_upgrade_later,
    try_upgrade_succeeds_only_if_nobody_else_reads,
    threads_upgrade_in_all_forms,
    an_upgrade_works_with_the_question_mark,
    a_thread_waits_until_its_guard_is_lost,
    a_timeout_names_who_holds_the_record,
    how_many_are_before_is_told_while_it_waits_and_after,
    a_timeout_names_this_process_if_it_holds_the_record,
    bad_labels_and_notes_are_refused,
    several_are_held_together_and_released_together,
    the_order_is_by_datatype_and_then_by_id,
    of_a_record_given_twice_the_stronger_mode_counts,
    a_set_that_waits_holds_what_comes_before_and_nothing_after,
    the_time_is_for_all_and_nothing_is_held_after_it,
    a_set_that_is_dropped_leaves_nothing,
    sets_in_any_order_never_wait_for_each_other_in_a_cycle,
    owners_that_hold_more_than_a_set_are_told_of_a_deadlock,
    a_set_that_can_not_be_is_refused,
    a_set_is_lost_when_one_of_it_is,
}
