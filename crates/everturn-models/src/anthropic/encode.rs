//! A request as the bytes of a Messages body.

use std::sync::Arc;

use everturn_core::{
    message::{Assistant, Call, CallResult, Message, Part, User},
    model::{Request, Thinking},
};

use super::wire::{self, Block, OurBlock};
use crate::{
    history::{by_role, is_own, prompt_and_rest, texts},
    ids::Ids,
    json::object,
};

/// A mark stands on each block whose number is a multiple of this: the provider looks back twenty blocks.
const MARK_EVERY: usize = 15;

/// How many of these are sent. With the one behind the system prompt and the one at the end, there are four.
const MARKS_WITHIN: usize = 2;

/// Writes a request; its answer may have so many tokens.
///
/// Shape: system messages in front of all others are the system prompt; later ones stand where they are. The results of
/// one answer are one user message. Empty texts are left out, since they are refused.
/// Promise: equal requests are equal bytes; a request that goes on with more messages begins with the same bytes, cache
/// marks apart, up to the end of the messages. At most four cache marks: behind the system prompt (or the tools, where
/// there is none), at the end, and on the last two blocks between whose number is a multiple of fifteen. Call ids are
/// unique and legal: the provider's own, else ours. Opaque items go back only to the model that made them, in place.
///
/// ```
/// use everturn_core::{message::Message, model::Request};
/// use everturn_models::anthropic;
///
/// let body = anthropic::encode(&Request::new("claude", [Message::user("hello")]), 8192);
/// let expected = concat!(
///     r#"{"model":"claude","max_tokens":8192,"stream":true,"messages":[{"role":"user","content":["#,
///     r#"{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]}]}"#
/// );
/// assert_eq!(String::from_utf8(body).unwrap(), expected);
/// ```
pub fn encode(request: &Request, answer_max: u64) -> Vec<u8> {
    let (prompt, messages) = prompt_and_rest(&request.messages);
    let mut system: Vec<_> = prompt.into_iter().filter_map(text).collect();
    let mut tools: Vec<_> = request.tools.iter().map(tool).collect();
    match (system.last_mut(), tools.last_mut()) {
        (Some(last), _) => _ = last.mark(),
        (None, Some(last)) => last.cache_control = Some(wire::Mark {}),
        (None, None) => {}
    }
    let mut messages = encode_messages(messages, &request.model);
    mark(&mut messages);
    let (thinking, effort) = thinking(request.thinking);
    let format = request.schema.as_ref().map(|schema| wire::Format { schema });
    let body = wire::Body {
        model: &request.model,
        max_tokens: answer_max,
        stream: true,
        thinking,
        output_config: (effort.is_some() || format.is_some())
            .then_some(wire::OutputConfig { effort, format }),
        tools,
        system,
        messages,
    };
    serde_json::to_vec(&body).expect("every key is a string, so this has a JSON form")
}

fn thinking(thinking: Thinking) -> (Option<wire::Thinking>, Option<&'static str>) {
    let effort = match thinking {
        Thinking::Default => return (None, None),
        Thinking::Off => return (Some(wire::Thinking::Disabled), None),
        Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High => "high",
    };
    (Some(wire::Thinking::Adaptive), Some(effort))
}

fn tool(spec: &everturn_core::tool::ToolSpec) -> wire::Tool<'_> {
    wire::Tool {
        name: &spec.name,
        description: &spec.description,
        input_schema: &spec.parameters,
        cache_control: None,
    }
}

/// A text; none for one that says nothing.
fn text(text: &str) -> Option<Block<'_>> {
    (!text.trim().is_empty()).then(|| Block::text(text))
}

fn encode_messages<'a>(messages: &'a [Arc<Message>], model: &str) -> Vec<wire::Message<'a>> {
    let mut ids = Ids::new(is_legal);
    let encoded = by_role(messages, |message| match message {
        Message::System(system) => ("system", text(&system.text).into_iter().collect()),
        Message::User(user) => ("user", user_blocks(user)),
        Message::Assistant(assistant) => ("assistant", assistant_blocks(assistant, model, &mut ids)),
        Message::Result(result) => ("user", vec![result_block(result, &ids)]),
    });
    encoded.into_iter().map(|(role, content)| wire::Message { role, content }).collect()
}

fn is_legal(id: &str) -> bool {
    id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn user_blocks(user: &User) -> Vec<Block<'_>> {
    let blocks: Vec<_> = texts(user).filter_map(text).collect();
    if blocks.is_empty() { vec![Block::text("(nothing)")] } else { blocks }
}

fn assistant_blocks<'a>(assistant: &'a Assistant, model: &str, ids: &mut Ids<'a>) -> Vec<Block<'a>> {
    let own = is_own(assistant, super::PROVIDER, model);
    let blocks = assistant.parts.iter().filter_map(|part| match part {
        Part::Text(said) => text(said),
        Part::Call(call) => Some(call_block(call, ids)),
        Part::Opaque(item) => own.then_some(Block::Kept(item)),
        // What may go back of it, goes back as it was signed.
        Part::Thinking(_) => None,
    });
    blocks.collect()
}

fn call_block<'a>(call: &'a Call, ids: &mut Ids<'a>) -> Block<'a> {
    let (id, input) = (ids.of_call(call), object(call.arguments.get()));
    Block::Ours(OurBlock::ToolUse { id, name: &call.name, input, cache_control: None })
}

fn result_block<'a>(result: &'a CallResult, ids: &Ids<'a>) -> Block<'a> {
    Block::Ours(OurBlock::ToolResult {
        tool_use_id: ids.of_result(&result.call),
        content: &result.text,
        is_error: result.outcome.is_error(),
        cache_control: None,
    })
}

/// Marks the last block and the last of those that stay marked from turn to turn.
fn mark(messages: &mut [wire::Message<'_>]) {
    let blocks: Vec<_> = messages.iter_mut().flat_map(|message| &mut message.content).collect();
    let mut within = 0;
    let mut is_last = true;
    for (at, block) in blocks.into_iter().enumerate().rev() {
        let due = is_last || at % MARK_EVERY == MARK_EVERY - 1;
        if !due || !block.mark() {
            continue;
        }
        within += usize::from(!is_last);
        is_last = false;
        if within == MARKS_WITHIN {
            break;
        }
    }
}
