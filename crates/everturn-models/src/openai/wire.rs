//! The JSON of Responses.
//!
//! What is sent has a fixed order of fields: what stays the same from turn to turn first, the items last, so that the
//! bytes of one turn's request begin the next one's.

use std::borrow::Cow;

use everturn_core::{json::RawJson, message};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{known, null_is_default};

/// A request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) stream: bool,
    pub(super) store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    pub(super) input: Vec<Item<'a>>,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_obfuscation: bool,
}

#[derive(Serialize)]
pub(super) struct Reasoning {
    pub(super) effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Text<'a> {
    pub(super) format: Format<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
pub(super) struct Format<'a> {
    pub(super) name: &'static str,
    pub(super) schema: &'a RawJson,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: &'a RawJson,
    pub(super) strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Item<'a> {
    Ours(OurItem<'a>),
    /// As it came.
    Kept(&'a RawJson),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OurItem<'a> {
    Message {
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<Cow<'a, str>>,
        content: Vec<Content<'a>>,
    },
    FunctionCall {
        call_id: String,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: String,
        output: &'a str,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
}

/// The phase of the message whose text comes next.
#[derive(Serialize, Deserialize)]
pub(super) struct Phase<'a> {
    #[serde(borrow)]
    pub(super) phase: Cow<'a, str>,
}

/// An event of an answer; which one, stands in it as well as in the event's name.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// Which item it is about: some servers leave the one out, some the other.
    #[serde(default)]
    pub(super) item_id: Option<String>,
    #[serde(default)]
    pub(super) output_index: Option<u32>,
    #[serde(default, borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "known")]
    pub(super) delta: Option<String>,
    #[serde(default, borrow)]
    pub(super) response: Option<Response<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Response<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "known")]
    pub(super) usage: Option<Usage>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) incomplete_details: IncompleteDetails,
}

#[derive(Deserialize, Default)]
pub(super) struct IncompleteDetails {
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// An item of the output.
#[derive(Deserialize)]
pub(super) struct OutputItem<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    /// Of a call.
    #[serde(default)]
    pub(super) call_id: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) arguments: String,
    /// Of a message.
    #[serde(default)]
    pub(super) phase: Option<String>,
    /// Of reasoning.
    #[serde(default)]
    pub(super) encrypted_content: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "known")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    input_tokens_details: Option<InputDetails>,
    #[serde(default, deserialize_with = "known")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Default)]
struct InputDetails {
    #[serde(default, deserialize_with = "known")]
    cached_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
struct OutputDetails {
    #[serde(default, deserialize_with = "known")]
    reasoning_tokens: Option<u64>,
}

impl From<Usage> for message::Usage {
    fn from(usage: Usage) -> Self {
        let input = usage.input_tokens_details.unwrap_or_default();
        Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cached: input.cached_tokens,
            cache_written: input.cache_write_tokens,
            reasoning: usage.output_tokens_details.unwrap_or_default().reasoning_tokens,
        }
    }
}
