//! A request as the bytes of a Responses body.

use everturn_core::{
    message::{Assistant, Message, Part},
    model::{Request, Thinking},
};

use super::{
    Responses,
    wire::{self, Content, Item, OurItem},
};
use crate::{
    history::{is_own, texts},
    ids::Ids,
};

/// The longest id that the server takes.
const ID_MAX: usize = 64;

/// Writes a request.
///
/// Promise: equal requests are equal bytes; a request that goes on with more messages begins with the same bytes, up to
/// the end of the items. Nothing is stored by the server. Call ids are unique: the provider's own, else ours. Opaque
/// items go back only to the model that made them, in place: reasoning as it came, and a message with its phase.
///
/// ```
/// use everturn_core::{message::Message, model::Request};
/// use everturn_models::openai::{self, Responses};
///
/// let body = openai::encode(&Request::new("gpt", [Message::user("hello")]), Responses::default());
/// let expected = concat!(
///     r#"{"model":"gpt","stream":true,"store":false,"input":[{"type":"message","role":"user","#,
///     r#""content":[{"type":"input_text","text":"hello"}]}]}"#
/// );
/// assert_eq!(String::from_utf8(body).unwrap(), expected);
/// ```
pub fn encode(request: &Request, takes: Responses) -> Vec<u8> {
    let mut ids = Ids::new(|id| id.len() <= ID_MAX);
    let mut input = Vec::with_capacity(request.messages.len());
    for message in request.messages.iter() {
        encode_message(message, &request.model, &mut ids, &mut input);
    }
    let body = wire::Body {
        model: &request.model,
        stream: true,
        store: false,
        stream_options: takes.is_openai.then_some(wire::StreamOptions { include_obfuscation: false }),
        include: takes.is_openai.then_some(["reasoning.encrypted_content"]),
        reasoning: reasoning(request.thinking),
        text: request
            .schema
            .as_ref()
            .map(|schema| wire::Text { format: wire::Format { name: "answer", schema } }),
        tools: request.tools.iter().map(tool).collect(),
        input,
    };
    serde_json::to_vec(&body).expect("every key is a string, so this has a JSON form")
}

fn reasoning(thinking: Thinking) -> Option<wire::Reasoning> {
    let effort = match thinking {
        Thinking::Default => return None,
        Thinking::Off => return Some(wire::Reasoning { effort: "none", summary: None }),
        Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High => "high",
    };
    Some(wire::Reasoning { effort, summary: Some("auto") })
}

fn tool(spec: &everturn_core::tool::ToolSpec) -> wire::Tool<'_> {
    wire::Tool {
        name: &spec.name,
        description: &spec.description,
        parameters: &spec.parameters,
        // Strict ones may have no optional argument.
        strict: false,
    }
}

fn encode_message<'a>(message: &'a Message, model: &str, ids: &mut Ids<'a>, items: &mut Vec<Item<'a>>) {
    match message {
        Message::System(system) => {
            items.push(said("system", vec![Content::InputText { text: &system.text }]));
        }
        Message::User(user) => {
            items.push(said("user", texts(user).map(|text| Content::InputText { text }).collect()));
        }
        Message::Assistant(assistant) => assistant_items(assistant, model, ids, items),
        Message::Result(result) => items.push(Item::Ours(OurItem::FunctionCallOutput {
            call_id: ids.of_result(&result.call),
            output: &result.text,
        })),
    }
}

fn said<'a>(role: &'static str, content: Vec<Content<'a>>) -> Item<'a> {
    Item::Ours(OurItem::Message { role, phase: None, content })
}

fn assistant_items<'a>(assistant: &'a Assistant, model: &str, ids: &mut Ids<'a>, items: &mut Vec<Item<'a>>) {
    let own = is_own(assistant, super::PROVIDER, model);
    let mut phase = None;
    for part in &assistant.parts {
        match part {
            Part::Text(text) => items.push(Item::Ours(OurItem::Message {
                role: "assistant",
                phase: phase.take(),
                content: vec![Content::OutputText { text }],
            })),
            Part::Call(call) => items.push(Item::Ours(OurItem::FunctionCall {
                call_id: ids.of_call(call),
                name: &call.name,
                arguments: call.arguments.get(),
            })),
            Part::Opaque(item) if own => match serde_json::from_str::<wire::Phase<'_>>(item.get()) {
                Ok(one) => phase = Some(one.phase),
                Err(_) => items.push(Item::Kept(item)),
            },
            // What may go back of thinking, goes back as it was encrypted.
            Part::Opaque(_) | Part::Thinking(_) => {}
        }
    }
    // Reasoning is refused without what it led to.
    while matches!(items.last(), Some(Item::Kept(_))) {
        items.pop();
    }
}
