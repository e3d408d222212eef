//! A request as the bytes of a Gemini body.

use std::{collections::HashMap, sync::Arc};

use everturn_core::{
    message::{Assistant, Call, CallId, CallResult, Message, Part, User},
    model::{Request, Thinking},
};

use super::wire;
use crate::{
    history::{by_role, is_own, prompt_and_rest, texts},
    json::object,
};

/// What stands for the signature of a call that another model made, as Google's page on thought signatures has it.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Writes a request.
///
/// Shape: system messages in front of all others are the system instruction; later ones are sent as what the user says,
/// since there is no other place for them. The results of one answer are one content.
/// Promise: equal requests are equal bytes; a request that goes on with more messages begins with the same bytes, up to
/// the end of the contents. Signed parts go back as they came, to the model that made them alone; the first call of an
/// answer that another model gave says that it has no signature.
///
/// ```
/// use everturn_core::{message::Message, model::Request};
/// use everturn_models::gemini;
///
/// let body = gemini::encode(&Request::new("flash", [Message::user("hello")]));
/// assert_eq!(body, br#"{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}"#);
/// ```
pub fn encode(request: &Request) -> Vec<u8> {
    let (prompt, messages) = prompt_and_rest(&request.messages);
    let instruction: Vec<_> = prompt.into_iter().filter_map(text).collect();
    let functions: Vec<_> = request.tools.iter().map(function).collect();
    let body = wire::Body {
        generation_config: config(request),
        tools: (!functions.is_empty()).then_some([wire::Tools { function_declarations: functions }]),
        system_instruction: (!instruction.is_empty()).then_some(wire::Instruction { parts: instruction }),
        contents: contents(messages, &request.model),
    };
    serde_json::to_vec(&body).expect("every key is a string, so this has a JSON form")
}

fn config(request: &Request) -> Option<wire::Config<'_>> {
    let level = |thinking_level| Some(wire::Thinking::Level { include_thoughts: true, thinking_level });
    let thinking_config = match request.thinking {
        Thinking::Default => None,
        Thinking::Off => Some(wire::Thinking::Budget { thinking_budget: 0 }),
        Thinking::Low => level("LOW"),
        Thinking::Medium => level("MEDIUM"),
        Thinking::High => level("HIGH"),
    };
    let schema = request.schema.as_ref();
    (thinking_config.is_some() || schema.is_some()).then_some(wire::Config {
        thinking_config,
        response_mime_type: schema.map(|_| "application/json"),
        response_json_schema: schema,
    })
}

fn function(spec: &everturn_core::tool::ToolSpec) -> wire::Function<'_> {
    wire::Function {
        name: &spec.name,
        description: &spec.description,
        parameters_json_schema: &spec.parameters,
    }
}

/// A text; none for an empty one, which is refused.
fn text(text: &str) -> Option<wire::Part<'_>> {
    (!text.is_empty()).then_some(wire::Part::Text { text })
}

fn contents<'a>(messages: &'a [Arc<Message>], model: &str) -> Vec<wire::Content<'a>> {
    let mut names = Names::new();
    let encoded = by_role(messages, |message| match message {
        Message::System(system) => ("user", text(&system.text).into_iter().collect()),
        Message::User(user) => ("user", user_parts(user)),
        Message::Assistant(assistant) => ("model", assistant_parts(assistant, model, &mut names)),
        Message::Result(result) => ("user", vec![result_part(result, &names)]),
    });
    encoded.into_iter().map(|(role, parts)| wire::Content { role, parts }).collect()
}

fn user_parts(user: &User) -> Vec<wire::Part<'_>> {
    let parts: Vec<_> = texts(user).filter_map(text).collect();
    if parts.is_empty() { vec![wire::Part::Text { text: "(nothing)" }] } else { parts }
}

/// How a call's result names it: the provider's id, where it gave one, and the tool.
type Names<'a> = HashMap<&'a CallId, (Option<&'a str>, &'a str)>;

fn assistant_parts<'a>(assistant: &'a Assistant, model: &str, names: &mut Names<'a>) -> Vec<wire::Part<'a>> {
    let own = is_own(assistant, super::PROVIDER, model);
    let mut unsigned = (!own).then_some(UNSIGNED);
    let mut parts = Vec::with_capacity(assistant.parts.len());
    for part in &assistant.parts {
        match part {
            Part::Text(said) => parts.extend(text(said)),
            Part::Call(call) => {
                let id = call.provider.as_deref().filter(|id| own && !id.is_empty());
                names.insert(&call.id, (id, &call.name));
                parts.push(call_part(call, id, unsigned.take()));
            }
            Part::Opaque(item) if own => keep(item, &mut parts),
            Part::Opaque(_) | Part::Thinking(_) => {}
        }
    }
    parts
}

/// Puts a signed part in the place of what was read of it: the call in front of it, or the end of the text.
fn keep<'a>(item: &'a everturn_core::json::RawJson, parts: &mut Vec<wire::Part<'a>>) {
    let Ok(signed) = serde_json::from_str::<wire::Signed<'_>>(item.get()) else { return };
    match (parts.last_mut(), signed.text) {
        (Some(wire::Part::Text { text }), Some(said)) if !signed.thought => {
            *text = text.strip_suffix(&*said).unwrap_or(text);
            if text.is_empty() {
                parts.pop();
            }
        }
        (Some(wire::Part::Call { .. }), None) => _ = parts.pop(),
        _ => {}
    }
    parts.push(wire::Part::Kept(item));
}

fn call_part<'a>(
    call: &'a Call,
    id: Option<&'a str>,
    thought_signature: Option<&'static str>,
) -> wire::Part<'a> {
    let function_call = wire::Call { id, name: &call.name, args: object(call.arguments.get()) };
    wire::Part::Call { function_call, thought_signature }
}

fn result_part<'a>(result: &'a CallResult, names: &Names<'a>) -> wire::Part<'a> {
    let (id, name) = names.get(&result.call).copied().unwrap_or((None, "unknown"));
    let said = result.text.as_str();
    let response =
        if result.outcome.is_error() { wire::Outcome::Error(said) } else { wire::Outcome::Output(said) };
    wire::Part::Result { function_response: wire::CallResult { id, name, response } }
}
