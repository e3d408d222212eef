//! The promises of the storage port, as functions over any [`Store`].
//!
//! Shape: a chapter is a file, a promise is an async function whose name says it, and panics where it is broken.
//! Each runs on a store of its own, opened for [`scene::OWNER`], so that its leases are those of a living owner.

#![expect(clippy::unwrap_used, reason = "a promise that is broken panics")]

pub mod approvals;
pub mod atomicity;
pub mod blobs;
pub mod changes;
pub mod documents;
pub mod doorbell;
pub mod ends;
pub mod leases;
pub mod listing;
pub mod mail;
pub mod notes;
pub mod order;
pub mod scene;
pub mod search;
pub mod submissions;
pub mod tasks;
pub mod upkeep;
pub mod views;
pub mod visibility;
pub mod wake;

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
        an_entry_is_not_appended_twice_by_one_batch
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
        an_id_beyond_all_others_is_not_found
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
        a_task_keeps_every_field_of_its_record
        a_null_is_not_nothing
        live_tasks_are_those_that_have_not_ended
        tasks_come_in_the_order_in_which_they_are_asked_for
        owned_tasks_are_found_by_their_owner
    }
    submissions {
        a_submission_is_replaced_as_it_moves
        a_submission_keeps_how_it_wants_to_be_delivered
        a_request_id_finds_its_submission
        a_request_id_belongs_to_one_conversation
        a_request_id_is_not_given_to_a_second_submission
        a_request_id_is_not_given_twice_by_one_batch
        all_submissions_are_listed
        live_submissions_are_those_that_have_not_ended
        the_ledger_keeps_its_order
    }
    approvals {
        an_approval_is_replaced_as_it_is_decided
        an_approval_keeps_every_field_of_its_record
        a_refused_batch_asks_nothing
        approvals_are_found_across_sessions
        open_approvals_are_those_that_wait
        an_open_approval_makes_no_session_due
        nothing_is_asked_of_a_deleted_session
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
        labels_choose_from_the_list
        times_choose_from_the_list
        labels_are_replaced_by_a_commit
        bytes_grow_with_what_is_committed
    }
    changes {
        what_a_commit_changed_is_read_from_its_rows
        nothing_new_is_empty
        a_commit_without_rows_is_passed_over
        work_is_told_where_it_changed_last
        a_question_is_told_where_it_changed_last
        a_latest_document_begins_with_the_base_that_is_left
        deltas_come_with_what_was_before
        what_was_before_is_told_of_no_other_document
        the_end_of_a_document_is_told
        revisions_of_one_commit_are_told_in_order
        a_limit_cuts_between_commits
        newer_epochs_come_with_the_head_they_found
        the_floor_says_what_was_trimmed
        work_that_a_trim_kept_is_told_where_it_ended
        an_answer_is_of_one_moment
        changes_of_an_unknown_session_are_not_found
    }
    views {
        everything_is_all_that_lives
        a_conversation_is_seen_with_what_belongs_to_it
        tasks_are_seen_while_they_live
        tasks_are_seen_with_the_conversations_that_they_own
        a_document_is_seen_by_itself
        a_document_that_is_not_there_is_none
        entries_begin_at_the_newest_head
        a_view_of_what_is_unknown_is_not_found
        a_view_says_where_it_stands
    }
    doorbell {
        it_rings_for_what_happens
        it_rings_for_what_happened_meanwhile
        it_rings_for_everyone
        dropping_it_harms_nothing
    }
    mail {
        mail_waits_as_it_was_posted
        mail_is_posted_once
        mail_comes_in_the_order_in_which_it_was_posted
        mail_is_taken_with_its_receipt
        refused_mail_says_why
        mail_is_taken_once
        a_batch_does_not_take_mail_twice
        a_submission_that_is_there_is_not_posted
        what_asks_about_a_submission_is_posted
        posting_needs_no_lease
        keys_belong_to_their_session
        mail_for_an_unknown_session_is_not_found
    }
    wake {
        a_session_is_runnable_when_its_due_has_come
        the_last_commit_says_when_a_session_is_due
        an_owned_session_is_left_to_its_owner
        mail_makes_a_session_runnable
        those_due_longest_come_first
        blocked_work_is_runnable_for_who_has_its_code
        what_newer_code_cannot_migrate_is_found_by_older
        work_that_moves_on_is_blocked_no_more
        blocked_work_of_an_owned_session_is_left_to_its_owner
        new_code_is_due_at_once
        the_next_due_is_the_earliest
    }
    blobs {
        a_blob_is_there_when_it_is_sealed
        chunks_may_come_in_any_order
        a_range_is_cut_from_the_whole
        sealing_twice_changes_nothing
        a_missing_chunk_is_refused
        a_short_chunk_in_the_middle_is_refused
        another_size_is_refused
        a_chunk_has_its_limits
        the_same_bytes_are_kept_once
        a_batch_refers_to_no_unknown_blob
        what_a_session_refers_to_is_listed
        a_sweep_keeps_what_is_referred_to
        a_blob_that_is_sealed_again_is_young_again
        a_sweep_drops_uploads_that_nobody_finished
        blobs_go_with_the_last_session_that_refers_to_them
    }
    search {
        a_hit_names_the_entry_and_shows_the_line
        a_message_must_have_all_of_the_words
        the_messages_of_an_entry_are_one_text
        data_is_not_searched
        case_means_nothing
        signs_are_no_language
        a_search_without_a_word_is_invalid
        hits_come_newest_first
        a_message_is_found_once_however_often_it_is_forked
        nothing_of_a_deleted_session_is_found
        nothing_that_was_purged_is_found
    }
    ends {
        a_deleted_session_is_not_found
        only_the_owner_may_delete
        a_deletion_touches_no_other_session
        a_deleted_id_comes_back_in_a_greater_epoch_only
        a_deletion_frees_the_request_id
        a_purged_entry_keeps_its_place
        an_unknown_entry_cannot_be_purged
        a_trim_drops_ended_work
        a_trim_keeps_what_a_live_task_owns
        a_trim_keeps_what_a_live_task_waits_for
        a_trim_drops_approvals_that_are_over
        a_trim_asks_no_other_session
        a_trim_comes_behind_what_its_commit_writes
        a_trim_drops_receipts
        a_trim_keeps_what_documents_were_since
        a_trim_keeps_the_transcript
    }
    upkeep {
        sweeping_an_empty_store_removes_nothing
        a_second_sweep_finds_nothing
        vacuum_and_check_leave_a_healthy_store_alone
    }
}
