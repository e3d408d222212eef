//! An answer of Messages as deltas.

use std::collections::BTreeMap;

use everturn_core::{json::RawJson, message::Stop, model::Delta};
use serde_json::value::RawValue;

use super::wire;
use crate::{decoder::Out, dialect, sse};

/// What was read of an answer.
#[derive(Debug, Default)]
pub struct Answer {
    /// The blocks that are open, by the server's number of them.
    open: BTreeMap<u32, Block>,
    usage: wire::Usage,
    stop_reason: Option<String>,
}

/// A block that may still grow.
#[derive(Debug)]
enum Block {
    Text,
    Thinking {
        thinking: String,
        signature: String,
    },
    Call {
        number: u32,
        /// Whether any of its input came.
        has_input: bool,
        /// What the start of the block said of its input.
        given: Option<Box<RawValue>>,
    },
    /// It is kept, or nobody knows it.
    Other,
}

impl dialect::Answer for Answer {
    fn take(&mut self, _: &sse::Event<'_>, json: &str, out: &mut Out) -> serde_json::Result<()> {
        let event: wire::Event<'_> = serde_json::from_str(json)?;
        match (&*event.kind, event.message, event.content_block, event.error) {
            ("message_start", Some(message), ..) => {
                out.start(message.id);
                self.count(message.usage, out);
            }
            ("content_block_start", _, Some(block), _) => self.open_block(event.index, block, out)?,
            ("content_block_delta", ..) => self.grow(event.index, event.delta, out),
            ("content_block_stop", ..) => self.close_block(event.index, out),
            ("message_delta", ..) => {
                self.stop_reason = event.delta.stop_reason.or(self.stop_reason.take());
                self.count(event.usage, out);
            }
            ("message_stop", ..) => out.end(self.stop(out.has_calls())),
            ("error", _, _, Some(error)) => out.fail_with(error),
            ("ping", ..) => {}
            _ => out.skip(),
        }
        Ok(())
    }
}

impl Answer {
    fn open_block(&mut self, index: u32, block: &RawValue, out: &mut Out) -> serde_json::Result<()> {
        let start: wire::Start<'_> = serde_json::from_str(block.get())?;
        let opened = match &*start.kind {
            "text" => {
                out.say(start.text);
                Block::Text
            }
            "thinking" => {
                out.think(start.thinking.clone());
                Block::Thinking { thinking: start.thinking, signature: start.signature }
            }
            "redacted_thinking" => {
                out.keep(block);
                Block::Other
            }
            "tool_use" => {
                let number = out.begin_call(start.id, start.name);
                Block::Call { number, has_input: false, given: start.input.map(ToOwned::to_owned) }
            }
            _ => {
                out.skip();
                Block::Other
            }
        };
        self.open.insert(index, opened);
        Ok(())
    }

    fn grow(&mut self, index: u32, piece: wire::Piece<'_>, out: &mut Out) {
        match (&*piece.kind, self.open.get_mut(&index)) {
            ("text_delta", _) => out.say(piece.text),
            ("thinking_delta", Some(Block::Thinking { thinking, .. })) => {
                thinking.push_str(&piece.thinking);
                out.think(piece.thinking);
            }
            ("signature_delta", Some(Block::Thinking { signature, .. })) => {
                signature.push_str(&piece.signature);
            }
            ("input_json_delta", Some(Block::Call { number, has_input, .. })) => {
                let piece = piece.partial_json;
                *has_input |= !piece.trim().is_empty();
                if !piece.is_empty() {
                    out.give(Delta::CallArguments { call: *number, piece });
                }
            }
            ("citations_delta", _) => {}
            _ => out.skip(),
        }
    }

    fn close_block(&mut self, index: u32, out: &mut Out) {
        match self.open.remove(&index) {
            Some(Block::Thinking { thinking, signature }) => {
                out.close_thinking();
                if !signature.is_empty() {
                    let block = wire::SignedThinking { thinking: &thinking, signature: &signature };
                    out.give(Delta::Opaque(RawJson::of(&block).expect("two strings have a JSON form")));
                }
            }
            Some(Block::Call { number, has_input, given }) => {
                if !has_input {
                    let given = given.as_deref().map(RawValue::get).filter(|input| *input != "null");
                    let piece = given.unwrap_or("{}").to_owned();
                    out.give(Delta::CallArguments { call: number, piece });
                }
                out.give(Delta::CallEnd { call: number });
            }
            Some(Block::Text | Block::Other) | None => {}
        }
    }

    fn count(&mut self, usage: Option<wire::Usage>, out: &mut Out) {
        let Some(usage) = usage else { return };
        self.usage = usage.over(self.usage);
        out.count(self.usage.into());
    }

    fn stop(&self, has_calls: bool) -> Stop {
        match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
            Some("refusal") => Stop::Refused,
            Some("pause_turn") => Stop::Paused,
            _ if has_calls => Stop::Calls,
            _ => Stop::Answer,
        }
    }
}
