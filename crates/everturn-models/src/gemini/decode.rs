//! An answer of Gemini as deltas.

use everturn_core::{
    message::{Stop, Usage},
    model::{Delta, Fault, FaultClass},
};
use serde_json::value::RawValue;

use super::wire;
use crate::{decoder::Out, dialect, sse};

/// What was read of an answer.
#[derive(Debug, Default)]
pub struct Answer {
    started: bool,
    /// The server's word for why it stopped. What was counted may come behind it.
    finish_reason: Option<String>,
}

impl dialect::Answer for Answer {
    fn take(&mut self, _: &sse::Event<'_>, json: &str, out: &mut Out) -> serde_json::Result<()> {
        if json.starts_with('[') {
            // An error may come as the only one of an array.
            for chunk in serde_json::from_str::<Vec<wire::Chunk<'_>>>(json)? {
                self.take_chunk(chunk, out)?;
            }
            return Ok(());
        }
        self.take_chunk(serde_json::from_str(json)?, out)
    }

    /// Ends the answer: well, if there was a reason. There is no other mark of the end.
    fn end(&mut self, unfinished: Fault, out: &mut Out) {
        let Some(reason) = self.finish_reason.take() else {
            return out.fail(unfinished);
        };
        match reason.as_str() {
            "MAX_TOKENS" => out.end(Stop::Length),
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | BLOCKED => {
                out.end(Stop::Filtered);
            }
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
                let message = format!("the model wrote a call that cannot be made ({reason})");
                out.fail(Fault::new(FaultClass::Malformed, message));
            }
            _ if out.has_calls() => out.end(Stop::Calls),
            _ => out.end(Stop::Answer),
        }
    }
}

/// Stands for the reason of a prompt that was blocked.
const BLOCKED: &str = "prompt blocked";

impl Answer {
    fn take_chunk(&mut self, chunk: wire::Chunk<'_>, out: &mut Out) -> serde_json::Result<()> {
        if let Some(error) = chunk.error {
            out.fail_with(error);
            return Ok(());
        }
        if !self.started {
            self.started = true;
            out.start(chunk.response_id);
        }
        for candidate in chunk.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            for part in candidate.content.parts {
                take_part(part, out)?;
            }
            self.finish_reason = candidate.finish_reason.or(self.finish_reason.take());
        }
        if chunk.prompt_feedback.block_reason.is_some() {
            self.finish_reason = Some(BLOCKED.to_owned());
        }
        out.count(chunk.usage_metadata.map(Usage::from).unwrap_or_default());
        Ok(())
    }
}

fn take_part(raw: &RawValue, out: &mut Out) -> serde_json::Result<()> {
    let part: wire::Piece<'_> = serde_json::from_str(raw.get())?;
    match (part.text, part.function_call) {
        (_, Some(call)) => take_call(call, out),
        (Some(text), None) if part.thought => out.think(text),
        (Some(text), None) => out.say(text),
        (None, None) if part.thought_signature.is_none() => out.skip(),
        (None, None) => {}
    }
    if part.thought_signature.is_some() {
        out.keep(raw);
    }
    Ok(())
}

/// Takes a call, which comes whole.
fn take_call(call: wire::CallPiece<'_>, out: &mut Out) {
    let number = out.begin_call(call.id, call.name);
    let arguments = call.args.map(RawValue::get).filter(|args| *args != "null");
    let piece = arguments.unwrap_or("{}").to_owned();
    out.give(Delta::CallArguments { call: number, piece });
    out.give(Delta::CallEnd { call: number });
}
