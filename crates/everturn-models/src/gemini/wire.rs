//! The JSON of Gemini.
//!
//! What is sent has a fixed order of fields: what stays the same from turn to turn first, the contents last, so that the
//! bytes of one turn's request begin the next one's.

use std::borrow::Cow;

use everturn_core::{json::RawJson, message};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{known, null_is_default};

/// A request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation_config: Option<Config<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_instruction: Option<Instruction<'a>>,
    pub(super) contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_config: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_json_schema: Option<&'a RawJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", untagged)]
pub(super) enum Thinking {
    #[serde(rename_all = "camelCase")]
    Level { include_thoughts: bool, thinking_level: &'static str },
    #[serde(rename_all = "camelCase")]
    Budget { thinking_budget: i32 },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tools<'a> {
    pub(super) function_declarations: Vec<Function<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters_json_schema: &'a RawJson,
}

#[derive(Serialize)]
pub(super) struct Instruction<'a> {
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
pub(super) struct Content<'a> {
    pub(super) role: &'static str,
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Part<'a> {
    Text {
        text: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: Call<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    #[serde(rename_all = "camelCase")]
    Result {
        function_response: CallResult<'a>,
    },
    /// As it came.
    Kept(&'a RawJson),
}

#[derive(Serialize)]
pub(super) struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) args: Cow<'a, RawValue>,
}

#[derive(Serialize)]
pub(super) struct CallResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) response: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome<'a> {
    Output(&'a str),
    Error(&'a str),
}

/// What a kept part says beside its signature.
#[derive(Deserialize)]
pub(super) struct Signed<'a> {
    #[serde(default, borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) thought: bool,
}

/// One event of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(default, borrow)]
    pub(super) response_id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "null_is_default", borrow)]
    pub(super) candidates: Vec<Candidate<'a>>,
    #[serde(default, deserialize_with = "known")]
    pub(super) usage_metadata: Option<Usage>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) prompt_feedback: Feedback,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback {
    #[serde(default)]
    pub(super) block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(default, deserialize_with = "null_is_default", borrow)]
    pub(super) content: Parts<'a>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
pub(super) struct Parts<'a> {
    #[serde(default, deserialize_with = "null_is_default", borrow)]
    pub(super) parts: Vec<&'a RawValue>,
}

/// A part of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece<'a> {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thought: bool,
    #[serde(default, borrow)]
    pub(super) function_call: Option<CallPiece<'a>>,
    #[serde(default, borrow)]
    pub(super) thought_signature: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct CallPiece<'a> {
    #[serde(default)]
    pub(super) id: Option<String>,
    pub(super) name: String,
    #[serde(default, borrow)]
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "known")]
    prompt_token_count: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    cached_content_token_count: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    candidates_token_count: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    thoughts_token_count: Option<u64>,
}

impl From<Usage> for message::Usage {
    fn from(usage: Usage) -> Self {
        let (said, thought) = (usage.candidates_token_count, usage.thoughts_token_count);
        let output = match (said, thought) {
            (None, None) => None,
            (said, thought) => Some(said.unwrap_or(0).saturating_add(thought.unwrap_or(0))),
        };
        Self {
            input: usage.prompt_token_count,
            output,
            cached: usage.cached_content_token_count,
            cache_written: None,
            reasoning: thought,
        }
    }
}
