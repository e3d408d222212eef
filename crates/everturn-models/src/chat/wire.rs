//! The JSON of Chat Completions.
//!
//! What is sent has a fixed order of fields: what stays the same from turn to turn first, the messages last, so that
//! the bytes of one turn's request begin the next one's.

use everturn_core::json::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{known, null_is_default};

/// A request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    pub(super) messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct Tool<'a> {
    pub(super) function: ToolFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct ToolFunction<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: &'a RawJson,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        /// Null only beside calls.
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<&'a RawJson>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: String,
        content: &'a str,
    },
}

/// One text as itself, which every server takes; more of them as parts.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum UserContent<'a> {
    Text(&'a str),
    Parts(Vec<TextPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
pub(super) struct TextPart<'a> {
    pub(super) text: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct ToolCall<'a> {
    pub(super) id: String,
    pub(super) function: CallFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct CallFunction<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

/// One event of an answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default = "Vec::new", deserialize_with = "null_is_default", borrow)]
    pub(super) choices: Vec<Choice<'a>>,
    #[serde(default, deserialize_with = "known")]
    pub(super) usage: Option<Usage>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(default, deserialize_with = "null_is_default", borrow)]
    pub(super) delta: Piece<'a>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
pub(super) struct Piece<'a> {
    #[serde(default, deserialize_with = "known")]
    pub(super) content: Option<Content>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    /// vLLM and OpenRouter.
    #[serde(default, deserialize_with = "known")]
    pub(super) reasoning: Option<String>,
    /// llama.cpp and DeepSeek.
    #[serde(default, deserialize_with = "known")]
    pub(super) reasoning_content: Option<String>,
    #[serde(default, deserialize_with = "null_is_default", borrow)]
    pub(super) reasoning_details: Vec<&'a RawValue>,
    #[serde(default, deserialize_with = "null_is_default", borrow)]
    pub(super) tool_calls: Vec<CallPiece<'a>>,
    /// The old form, of which there is one at most.
    #[serde(default, borrow)]
    pub(super) function_call: Option<FunctionPiece<'a>>,
}

/// Text, or the parts that some servers send in its place.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
pub(super) struct ContentPart {
    #[serde(default)]
    pub(super) text: String,
}

impl Content {
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct CallPiece<'a> {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default, borrow)]
    pub(super) function: Option<FunctionPiece<'a>>,
}

#[derive(Deserialize, Default)]
pub(super) struct FunctionPiece<'a> {
    #[serde(default)]
    pub(super) name: Option<String>,
    /// A string that holds JSON; with some servers the JSON itself.
    #[serde(default, borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "known")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default, deserialize_with = "known")]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize, Default)]
struct PromptDetails {
    #[serde(default, deserialize_with = "known")]
    cached_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "known")]
    reasoning_tokens: Option<u64>,
}

impl From<Usage> for everturn_core::message::Usage {
    fn from(usage: Usage) -> Self {
        let prompt = usage.prompt_tokens_details.unwrap_or_default();
        Self {
            input: usage.prompt_tokens,
            output: usage.completion_tokens,
            cached: prompt.cached_tokens,
            cache_written: prompt.cache_write_tokens,
            reasoning: usage.completion_tokens_details.unwrap_or_default().reasoning_tokens,
        }
    }
}
