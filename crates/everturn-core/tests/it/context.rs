//! Contexts: the cases, random transcripts, and the proof that a request is legal.

mod cases;
mod proof;
mod random;

use std::sync::Arc;

use everturn_core::{
    context::{Active, Context, check},
    entry::EntryRecord,
    id::EntryId,
    message::Message,
};

/// Derives the context of visible entries, and proves what holds for the context of any transcript.
fn derive(entries: &[EntryRecord]) -> Context {
    let mut context = Context::derive(entries);
    assert_eq!(context.check(), Ok(()));
    assert_eq!(check(context.messages()), Ok(()));
    each_call_has_its_result(context.messages());

    let again = Context::derive(entries);
    assert_eq!(parts(&again), parts(&context), "deriving twice is the same");
    let tail = Context::derive(behind_the_head(entries));
    assert_eq!(parts(&tail), parts(&context), "what stands before the head's entry adds nothing");
    pushing_is_deriving(entries);
    context
}

/// Everything that a context says.
fn parts(context: &Context) -> (Option<EntryId>, &[Active], &[Arc<Message>]) {
    (context.head(), context.active(), context.messages())
}

fn pushing_is_deriving(entries: &[EntryRecord]) {
    let mut pushed = Context::default();
    for (index, entry) in entries.iter().enumerate() {
        let derived = Context::derive(&entries[..=index]);
        if !pushed.push(entry) {
            pushed = derived.clone();
        }
        assert_eq!(parts(&pushed), parts(&derived), "after entry {}", entry.id);
        assert_eq!(pushed.check(), Ok(()), "after entry {}", entry.id);
    }
}

fn behind_the_head(entries: &[EntryRecord]) -> &[EntryRecord] {
    let head = entries.iter().rev().find_map(|entry| Some(entry.head?.entry(entry.id)));
    let begin = head.map_or(0, |head| entries.iter().take_while(|entry| entry.id < head).count());
    &entries[begin..]
}

/// Says the rule again, in other words than the checker.
fn each_call_has_its_result(messages: &[Arc<Message>]) {
    let mut results = messages.iter().filter(|message| matches!(***message, Message::Result(_))).count();
    for (index, message) in messages.iter().enumerate() {
        let Message::Assistant(assistant) = &**message else {
            continue;
        };
        for (place, call) in assistant.calls().enumerate() {
            let answer = messages.get(index + 1 + place);
            assert!(
                matches!(answer.map(|answer| &**answer), Some(Message::Result(result)) if result.call == call.id),
                "call {} has {answer:?} in the place of its result",
                call.id
            );
            results -= 1;
        }
    }
    assert_eq!(results, 0, "each result has a call");
}
