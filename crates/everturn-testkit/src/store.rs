//! The promises of the storage port, as functions over any [`Store`].
//!
//! Shape: a chapter is a file, a promise is an async function whose name says it, and panics where it is broken.
//! Each runs on a store of its own, opened for [`scene::OWNER`], so that its leases are those of a living owner.

#![expect(clippy::unwrap_used, reason = "a promise that is broken panics")]

pub mod atomicity;
pub mod documents;
pub mod leases;
pub mod listing;
pub mod order;
pub mod scene;
pub mod submissions;
pub mod tasks;
pub mod visibility;

use everturn_core::{BoxFuture, storage::Store};

/// A promise: a check that panics where it is broken.
///
/// ```
/// use everturn_core::{memory::Memory, storage::Store};
/// use everturn_testkit::store::{Promise, order};
///
/// let promise: Promise = |store| Box::pin(order::a_repeated_batch_is_stored_once(store));
/// everturn_testkit::block_on(promise(&Store::new(Memory::new())));
/// ```
pub type Promise = for<'a> fn(&'a Store) -> BoxFuture<'a, ()>;

macro_rules! promises {
    ($d:tt $($chapter:ident { $($name:ident)+ })+) => {
        /// All promises, by name.
        ///
        /// ```
        /// use everturn_core::{memory::Memory, storage::Store};
        ///
        /// for (name, promise) in everturn_testkit::store::suite() {
        ///     println!("{name}");
        ///     everturn_testkit::block_on(promise(&Store::new(Memory::new())));
        /// }
        /// ```
        pub fn suite() -> Vec<(&'static str, Promise)> {
            vec![$($((stringify!($name), |store| Box::pin($chapter::$name(store)))),+),+]
        }

        /// A `#[test]` for every promise of the storage port.
        ///
        /// Shape: one expression that is a future of a fresh, empty [`Store`](everturn_core::storage::Store), opened
        /// for [`scene::OWNER`](crate::store::scene::OWNER) where it asks for an owner.
        ///
        /// ```
        /// mod memory {
        ///     use everturn_core::{memory::Memory, storage::Store};
        ///     everturn_testkit::store_suite!(async { Store::new(Memory::new()) });
        /// }
        /// ```
        #[macro_export]
        macro_rules! store_suite {
            ($d open:expr) => {
                $($(
                    #[test]
                    fn $name() {
                        $d crate::block_on(async { $d crate::store::$chapter::$name(&$d open.await).await });
                    }
                )+)+
            };
        }
    };
}

promises! { $
    atomicity {
        a_batch_is_stored_whole
        a_batch_that_is_refused_leaves_nothing
        an_entry_is_never_replaced
        a_conversation_is_never_replaced
        bodies_come_back_byte_for_byte
        the_title_and_the_usage_are_part_of_the_batch
        a_creation_that_is_refused_leaves_no_session
    }
    order {
        a_repeated_batch_is_stored_once
        a_batch_ahead_of_the_head_is_a_conflict
        a_batch_behind_the_head_is_a_conflict
        the_head_and_the_mint_mark_move_with_the_commit
        relaxed_and_durable_batches_share_one_line
        an_empty_batch_takes_a_seq
        sessions_do_not_share_their_ids
        what_is_counted_is_what_was_stored
    }
    visibility {
        entries_come_newest_first_and_oldest_first
        a_fork_sees_its_parent_up_to_the_fork_point
        a_fork_of_a_fork_sees_through_both
        a_cursor_keeps_its_place_while_entries_arrive
        pages_cross_the_fork_point
        heads_and_turns_are_found_without_the_rest
        a_range_without_entries_is_empty
        an_unknown_session_is_not_found
        conversations_come_oldest_first
    }
    documents {
        a_document_is_its_base_and_its_deltas
        a_document_as_of_a_seq_is_what_it_was_then
        a_base_of_a_latest_document_takes_the_place_of_what_was
        a_retired_document_is_gone
        a_retired_rewindable_document_can_still_be_read_as_it_was
        documents_belong_to_their_scope
        a_new_incarnation_follows_a_retired_one
        two_revisions_of_one_commit_keep_their_order
    }
    tasks {
        a_task_is_replaced_as_it_moves
        live_tasks_are_those_that_have_not_ended
        tasks_come_in_the_order_in_which_they_are_asked_for
        owned_tasks_are_found_by_their_owner
    }
    submissions {
        a_submission_is_replaced_as_it_moves
        a_request_id_finds_its_submission
        a_request_id_belongs_to_one_conversation
        a_request_id_is_not_given_to_a_second_submission
        all_submissions_are_listed
        live_submissions_are_those_that_have_not_ended
        the_ledger_keeps_its_order
    }
    leases {
        a_creation_gives_the_first_lease
        a_live_lease_is_respected
        an_expired_lease_can_be_claimed
        each_claim_raises_the_epoch
        a_fenced_owner_can_neither_commit_nor_renew
        a_fenced_owner_does_not_learn_that_its_batch_was_stored
        an_expired_lease_can_be_renewed_while_nobody_claimed
        a_released_session_can_be_claimed_at_once
        releasing_what_is_no_longer_held_changes_nothing
        a_claim_gives_the_head_and_the_mint_mark
        claiming_an_unknown_session_is_not_found
    }
    listing {
        sessions_come_newest_first_a_page_at_a_time
        a_repeated_creation_gives_the_same_session
        a_request_id_finds_the_session_that_it_created
        an_id_in_use_is_a_conflict
        a_row_says_what_the_creator_said
        an_unknown_session_has_no_row
    }
}
