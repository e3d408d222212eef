//! The JSON of Messages.
//!
//! What is sent has a fixed order of fields: what stays the same from turn to turn first, the messages last, so that
//! the bytes of one turn's request begin the next one's, cache marks apart.

use std::borrow::Cow;

use everturn_core::{json::RawJson, message};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{known, null_is_default};

/// A request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens: u64,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<Block<'a>>,
    pub(super) messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Thinking {
    Adaptive,
    Disabled,
}

#[derive(Serialize)]
pub(super) struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<Format<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
pub(super) struct Format<'a> {
    pub(super) schema: &'a RawJson,
}

#[derive(Serialize)]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) input_schema: &'a RawJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<Mark>,
}

/// Up to here the provider may keep what it has read.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(super) struct Mark {}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: &'static str,
    pub(super) content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Block<'a> {
    Ours(OurBlock<'a>),
    /// As it came; it cannot be marked.
    Kept(&'a RawJson),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OurBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Cow<'a, RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
}

impl<'a> Block<'a> {
    pub(super) fn text(text: &'a str) -> Self {
        Self::Ours(OurBlock::Text { text, cache_control: None })
    }

    /// Marks the block; false where it cannot be marked.
    pub(super) fn mark(&mut self) -> bool {
        let Self::Ours(block) = self else { return false };
        match block {
            OurBlock::Text { cache_control, .. }
            | OurBlock::ToolUse { cache_control, .. }
            | OurBlock::ToolResult { cache_control, .. } => *cache_control = Some(Mark {}),
        }
        true
    }
}

/// An event of an answer: which one, stands in it as well as in the event's name, and compatible servers leave the
/// name out.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// The server's number of the block.
    #[serde(default)]
    pub(super) index: u32,
    #[serde(default, borrow)]
    pub(super) message: Option<Started<'a>>,
    #[serde(default, borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) delta: Piece<'a>,
    #[serde(default, deserialize_with = "known")]
    pub(super) usage: Option<Usage>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Started<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "known")]
    pub(super) usage: Option<Usage>,
}

/// The start of a block.
#[derive(Deserialize)]
pub(super) struct Start<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) text: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) thinking: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) signature: String,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) name: String,
    /// The whole input, where a server does not send it in pieces; empty otherwise.
    #[serde(default, borrow)]
    pub(super) input: Option<&'a RawValue>,
}

/// More of a block, or of the message.
#[derive(Deserialize, Default)]
pub(super) struct Piece<'a> {
    #[serde(rename = "type", default, borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) text: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) partial_json: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) thinking: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) signature: String,
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

/// A block of thinking as it goes back.
#[derive(Serialize)]
#[serde(tag = "type", rename = "thinking")]
pub(super) struct SignedThinking<'a> {
    pub(super) thinking: &'a str,
    pub(super) signature: &'a str,
}

/// Counts so far; what a later one leaves out stays as it was.
#[derive(Clone, Copy, Default, Deserialize, Debug)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "known")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "known")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Default, Deserialize, Debug)]
struct OutputDetails {
    #[serde(default, deserialize_with = "known")]
    thinking_tokens: Option<u64>,
}

impl Usage {
    /// These counts, and the earlier ones where these say nothing.
    pub(super) fn over(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.or(earlier.input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .or(earlier.cache_creation_input_tokens),
            cache_read_input_tokens: self.cache_read_input_tokens.or(earlier.cache_read_input_tokens),
            output_tokens: self.output_tokens.or(earlier.output_tokens),
            output_tokens_details: self.output_tokens_details.or(earlier.output_tokens_details),
        }
    }
}

impl From<Usage> for message::Usage {
    fn from(usage: Usage) -> Self {
        let (cached, cache_written) = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens);
        let beside = cached.unwrap_or(0).saturating_add(cache_written.unwrap_or(0));
        Self {
            input: usage.input_tokens.map(|input| input.saturating_add(beside)),
            output: usage.output_tokens,
            cached,
            cache_written,
            reasoning: usage.output_tokens_details.unwrap_or_default().thinking_tokens,
        }
    }
}
