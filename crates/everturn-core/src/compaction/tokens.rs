//! How many tokens messages have: what a provider said, and an estimate of the rest.

use std::sync::Arc;

use crate::{
    context::Context,
    id::EntryId,
    message::{Assistant, End, Message},
    tool::ToolSpec,
};

/// What a message has beside its text: its role, and where it begins and ends.
const PER_MESSAGE: u64 = 4;

/// An estimate of a message's tokens: four bytes each, and a few for the message itself.
///
/// ```
/// use everturn_core::{compaction::weigh, message::Message};
/// assert_eq!(weigh(&Message::user("123456789")), 3 + 4);
/// ```
pub fn weigh(message: &Message) -> u64 {
    of_bytes(message.weight()) + PER_MESSAGE
}

/// An estimate of the tokens of a text.
pub(super) fn of_bytes(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// An estimate of what tools weigh in a request.
pub(super) fn of_tools(tools: &[ToolSpec]) -> u64 {
    let bytes = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.parameters.get().len();
    tools.iter().map(|tool| of_bytes(bytes(tool)) + PER_MESSAGE).sum()
}

/// An estimate of the tokens that a context has as a request: what the provider last reported, and [`weigh`] of what came
/// after; all of it, tools included, where nothing was reported. A report from before a head, an edit or an epoch is of
/// another context, and left aside.
///
/// ```
/// use everturn_core::{compaction::tokens_of, context::Context};
/// assert_eq!(tokens_of(&Context::default()), 0);
/// ```
pub fn tokens_of(context: &Context) -> u64 {
    let since = since(context);
    let newer = context.active().iter().rev().take_while(|active| Some(active.entry) > since);
    let report = newer.flat_map(|active| active.messages.iter().rev()).find(|own| reported(own).is_some());
    let messages = context.messages();
    let report = report.and_then(|own| {
        let at = messages.iter().rposition(|message| Arc::ptr_eq(message, own))?;
        Some((at, reported(own)?))
    });
    from_report(messages, &context.standing().prompt.tools, report)
}

/// The newest entry that made the context another one.
fn since(context: &Context) -> Option<EntryId> {
    context.head().max(context.standing().epoch).max(super::layout::newest_break(context))
}

fn from_report(messages: &[Arc<Message>], tools: &[ToolSpec], report: Option<(usize, u64)>) -> u64 {
    let weight = |messages: &[Arc<Message>]| messages.iter().map(|message| weigh(message)).sum::<u64>();
    match report {
        Some((at, tokens)) => tokens.saturating_add(weight(&messages[at + 1..])),
        None => of_tools(tools) + weight(messages),
    }
}

/// What a provider said of all up to and with a message.
fn reported(message: &Message) -> Option<u64> {
    let Message::Assistant(Assistant { usage: Some(usage), end: End::Complete, .. }) = message else {
        return None;
    };
    let output = usage.output.unwrap_or_else(|| weigh(message));
    usage.input.map(|input| input.saturating_add(output))
}
