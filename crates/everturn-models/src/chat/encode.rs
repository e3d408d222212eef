//! A request as the bytes of a Chat Completions body.

use everturn_core::{
    message::{Assistant, Call, Message, Part, User},
    model::{Request, Thinking},
};

use super::{Quirks, wire};
use crate::{
    history::{is_own, texts},
    ids::Ids,
};

/// Writes a request.
///
/// Promise: equal requests are equal bytes; a request that goes on with more messages begins with the same bytes, up
/// to the end of the messages. Call ids are unique: the provider's own, else ours, where it is empty or was used
/// before. Opaque items go back only to the model that made them.
///
/// ```
/// use everturn_core::{message::Message, model::Request};
/// use everturn_models::chat::{self, Quirks};
///
/// let body = chat::encode(&Request::new("qwen", [Message::user("hello")]), Quirks::default());
/// let expected = concat!(
///     r#"{"model":"qwen","stream":true,"stream_options":{"include_usage":true},"#,
///     r#""messages":[{"role":"user","content":"hello"}]}"#
/// );
/// assert_eq!(String::from_utf8(body).unwrap(), expected);
/// ```
pub fn encode(request: &Request, quirks: Quirks) -> Vec<u8> {
    let mut ids = Ids::new(|_| true);
    let body = wire::Body {
        model: &request.model,
        stream: true,
        stream_options: quirks.include_usage.then_some(wire::StreamOptions { include_usage: true }),
        reasoning_effort: effort(request.thinking),
        tools: request.tools.iter().map(tool).collect(),
        messages: request
            .messages
            .iter()
            .map(|message| encode_message(message, &request.model, &mut ids))
            .collect(),
    };
    serde_json::to_vec(&body).expect("every key is a string, so this has a JSON form")
}

fn effort(thinking: Thinking) -> Option<&'static str> {
    match thinking {
        Thinking::Default => None,
        Thinking::Off => Some("none"),
        Thinking::Low => Some("low"),
        Thinking::Medium => Some("medium"),
        Thinking::High => Some("high"),
    }
}

fn tool(spec: &everturn_core::tool::ToolSpec) -> wire::Tool<'_> {
    wire::Tool {
        function: wire::ToolFunction {
            name: &spec.name,
            description: &spec.description,
            parameters: &spec.parameters,
        },
    }
}

fn encode_message<'a>(message: &'a Message, model: &str, ids: &mut Ids<'a>) -> wire::Message<'a> {
    match message {
        Message::System(system) => wire::Message::System { content: &system.text },
        Message::User(user) => wire::Message::User { content: user_content(user) },
        Message::Assistant(assistant) => encode_assistant(assistant, model, ids),
        Message::Result(result) => {
            wire::Message::Tool { tool_call_id: ids.of_result(&result.call), content: &result.text }
        }
    }
}

fn user_content(user: &User) -> wire::UserContent<'_> {
    match texts(user).collect::<Vec<_>>().as_slice() {
        [] => wire::UserContent::Text(""),
        [one] => wire::UserContent::Text(one),
        more => wire::UserContent::Parts(more.iter().map(|text| wire::TextPart { text }).collect()),
    }
}

fn encode_assistant<'a>(assistant: &'a Assistant, model: &str, ids: &mut Ids<'a>) -> wire::Message<'a> {
    let own = is_own(assistant, super::PROVIDER, model);
    let opaque = assistant.parts.iter().filter_map(|part| match part {
        Part::Opaque(item) if own => Some(item),
        _ => None,
    });
    let tool_calls: Vec<_> = assistant.calls().map(|call| tool_call(call, ids)).collect();
    let text = assistant.text();
    wire::Message::Assistant {
        content: (!text.is_empty() || tool_calls.is_empty()).then_some(text),
        reasoning_details: opaque.collect(),
        tool_calls,
    }
}

fn tool_call<'a>(call: &'a Call, ids: &mut Ids<'a>) -> wire::ToolCall<'a> {
    wire::ToolCall {
        id: ids.of_call(call),
        function: wire::CallFunction { name: &call.name, arguments: call.arguments.get() },
    }
}
