//! What one batch may write once only.

use std::collections::HashMap;

use crate::{
    id::{ConversationId, EntryId, SubmissionId},
    storage::Write,
};

/// What the writes of a batch have taken so far.
#[derive(Default)]
pub(super) struct Taking<'a> {
    once: HashMap<Once<'a>, Option<SubmissionId>>,
}

#[derive(PartialEq, Eq, Hash)]
enum Once<'a> {
    Conversation(ConversationId),
    Entry(ConversationId, EntryId),
    Mail(&'a str),
    /// A submission may be written again; its request id is its own.
    Request(ConversationId, &'a str),
}

impl<'a> Taking<'a> {
    /// Whether a write takes what an earlier one has taken.
    pub(super) fn is_again(&mut self, write: &'a Write) -> bool {
        let (once, holder) = match write {
            Write::Conversation(conversation) => (Once::Conversation(conversation.id), None),
            Write::Entry(entry) => (Once::Entry(entry.conversation, entry.id), None),
            Write::Taken(taken) => (Once::Mail(&taken.key), None),
            Write::Submission(submission) => match &submission.request {
                Some(request) => (Once::Request(submission.conversation, request), Some(submission.id)),
                None => return false,
            },
            _ => return false,
        };
        self.once.insert(once, holder).is_some_and(|earlier| holder.is_none() || earlier != holder)
    }
}
