//! A Chat Completions answer as deltas.

use everturn_core::{
    message::{Stop, Usage},
    model::{Fault, FaultClass},
};

use super::{calls::Calls, wire};
use crate::{decoder::Out, dialect, sse::Event};

/// What was read of an answer.
#[derive(Debug, Default)]
pub struct Answer {
    calls: Calls,
    started: bool,
    refused: bool,
    /// The server's word for why it stopped; an empty one is one too.
    finish_reason: Option<String>,
}

impl dialect::Answer for Answer {
    fn take(&mut self, _: &Event<'_>, json: &str, out: &mut Out) -> serde_json::Result<()> {
        if json == "[DONE]" {
            let fault = Fault::new(FaultClass::Transient, "the answer ended without a finish reason");
            dialect::Answer::end(self, fault, out);
            return Ok(());
        }
        self.take_chunk(serde_json::from_str(json)?, out);
        Ok(())
    }

    /// Ends the answer: well, if there was a finish reason.
    fn end(&mut self, unfinished: Fault, out: &mut Out) {
        let Some(reason) = self.finish_reason.take() else {
            return out.fail(unfinished);
        };
        self.calls.end(out);
        let stop = match reason.as_str() {
            "error" => {
                return out.fail(Fault::new(
                    FaultClass::Transient,
                    "the server broke off the answer, with finish reason error and no word why",
                ));
            }
            _ if self.refused => Stop::Refused,
            "content_filter" => Stop::Filtered,
            "length" | "model_length" => Stop::Length,
            _ if self.calls.any_nameless() => {
                return out
                    .fail(Fault::new(FaultClass::Malformed, "the answer holds a call that names no tool"));
            }
            _ if self.calls.any() => Stop::Calls,
            _ => Stop::Answer,
        };
        out.end(stop);
    }
}

impl Answer {
    fn take_chunk(&mut self, chunk: wire::Chunk<'_>, out: &mut Out) {
        if let Some(error) = chunk.error {
            return out.fail_with(error);
        }
        if chunk.choices.is_empty() && chunk.usage.is_none() {
            out.skip();
        }
        let response = chunk.id.filter(|id| !id.is_empty());
        if !self.started && (response.is_some() || !chunk.choices.is_empty()) {
            self.started = true;
            out.start(response);
        }
        for choice in chunk.choices {
            if choice.index.unwrap_or(0) == 0 {
                self.take_piece(choice.delta, out);
                self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            }
        }
        out.count(chunk.usage.map(Usage::from).unwrap_or_default());
    }

    fn take_piece(&mut self, piece: wire::Piece<'_>, out: &mut Out) {
        out.think(piece.reasoning.or(piece.reasoning_content).unwrap_or_default());
        for item in piece.reasoning_details {
            out.keep(item);
        }
        out.say(piece.content.map(wire::Content::text).unwrap_or_default());
        let refusal = piece.refusal.unwrap_or_default();
        self.refused |= !refusal.is_empty();
        out.say(refusal);
        let old_form = piece.function_call.map(|function| wire::CallPiece {
            index: Some(0),
            id: None,
            function: Some(function),
        });
        for call in piece.tool_calls.into_iter().chain(old_form) {
            out.close_thinking();
            self.calls.take(call, out);
        }
    }
}
