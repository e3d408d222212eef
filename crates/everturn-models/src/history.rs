//! What the encoders ask of the messages that they write.

use std::sync::Arc;

use everturn_core::message::{Assistant, Message, Origin, Part, User};

/// Whether a message was made by this model, so that it is sent its opaque items again.
pub(crate) fn is_own(assistant: &Assistant, provider: &str, model: &str) -> bool {
    let is_it = |origin: &Origin| origin.provider == provider && origin.model == model;
    assistant.origin.as_ref().is_some_and(is_it)
}

/// The texts of what a person said, in order.
pub(crate) fn texts(user: &User) -> impl Iterator<Item = &str> {
    user.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Thinking(_) | Part::Call(_) | Part::Opaque(_) => None,
    })
}

/// The system prompt's texts, and the other messages, for who takes the prompt apart from them: it is what stands in front
/// of all others.
pub(crate) fn prompt_and_rest(messages: &[Arc<Message>]) -> (Vec<&str>, &[Arc<Message>]) {
    let prompt = messages.iter().map_while(|message| match &**message {
        Message::System(system) => Some(system.text.as_str()),
        Message::User(_) | Message::Assistant(_) | Message::Result(_) => None,
    });
    let prompt: Vec<_> = prompt.collect();
    let rest = &messages[prompt.len()..];
    (prompt, rest)
}

/// Roles and their parts, for who has the results of one answer in one message. What has no parts is left out: it is
/// refused, and nothing is lost without it.
pub(crate) fn by_role<'a, T>(
    messages: &'a [Arc<Message>],
    mut encode: impl FnMut(&'a Message) -> (&'static str, Vec<T>),
) -> Vec<(&'static str, Vec<T>)> {
    let mut encoded: Vec<(&'static str, Vec<T>)> = Vec::with_capacity(messages.len());
    let mut behind_result = false;
    for message in messages {
        let (role, parts) = encode(message);
        let is_result = matches!(**message, Message::Result(_));
        match encoded.last_mut() {
            Some((_, last)) if is_result && behind_result => last.extend(parts),
            _ if parts.is_empty() => continue,
            _ => encoded.push((role, parts)),
        }
        behind_result = is_result;
    }
    encoded
}
