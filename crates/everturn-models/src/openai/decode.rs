//! An answer of Responses as deltas.

use everturn_core::{
    json::RawJson,
    message::{Stop, Usage},
    model::{Delta, Fault, FaultClass},
};
use serde_json::value::RawValue;

use super::{
    items::{Items, Name},
    wire,
};
use crate::{answer, decoder::Out, dialect, sse};

/// What was read of an answer.
#[derive(Debug, Default)]
pub struct Answer {
    items: Items,
    refused: bool,
}

impl dialect::Answer for Answer {
    fn take(&mut self, _: &sse::Event<'_>, json: &str, out: &mut Out) -> serde_json::Result<()> {
        let event: wire::Event<'_> = serde_json::from_str(json)?;
        let name = Name { id: event.item_id, index: event.output_index };
        let delta = event.delta.unwrap_or_default();
        match (&*event.kind, event.item, event.response) {
            ("response.created", _, Some(response)) => {
                out.start(response.id);
            }
            ("response.output_item.added", Some(item), _) => self.begin(name, item, out)?,
            ("response.output_item.done", Some(item), _) => self.finish(name, item, out)?,
            ("response.output_text.delta", ..) => out.say(delta),
            ("response.refusal.delta", ..) => {
                self.refused = true;
                out.say(delta);
            }
            ("response.function_call_arguments.delta", ..) => self.items.grow(&name, &delta, out),
            ("response.reasoning_summary_part.added", ..) => out.close_thinking(),
            ("response.reasoning_summary_text.delta" | "response.reasoning_text.delta", ..) => {
                out.think(delta);
            }
            ("response.completed" | "response.incomplete" | "response.failed", _, Some(response)) => {
                self.end(&event.kind, response, out);
            }
            ("error", ..) => out.fail(answer::stream_fault(json)),
            (kind, ..) if REPEATED.contains(&kind) => {}
            _ => out.skip(),
        }
        Ok(())
    }
}

/// Events that say again what others said, or that the server is at work.
const REPEATED: &[&str] = &[
    "response.queued",
    "response.in_progress",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.done",
    "response.output_text.annotation.added",
    "response.refusal.done",
    "response.function_call_arguments.done",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "response.reasoning_text.done",
];

impl Answer {
    /// Takes the start of an item.
    fn begin(&mut self, mut name: Name, item: &RawValue, out: &mut Out) -> serde_json::Result<()> {
        let item: wire::OutputItem<'_> = serde_json::from_str(item.get())?;
        name.id = name.id.or_else(|| item.id.clone());
        match &*item.kind {
            "function_call" => _ = self.items.begin(&name, item, out),
            "message" => {
                out.close_thinking();
                if let Some(phase) = item.phase {
                    let phase = wire::Phase { phase: phase.into() };
                    out.give(Delta::Opaque(RawJson::of(&phase).expect("a string has a JSON form")));
                }
            }
            "reasoning" => out.close_thinking(),
            _ => out.skip(),
        }
        Ok(())
    }

    /// Takes a finished item, which counts, whatever came of it before.
    fn finish(&mut self, mut name: Name, raw: &RawValue, out: &mut Out) -> serde_json::Result<()> {
        let item: wire::OutputItem<'_> = serde_json::from_str(raw.get())?;
        name.id = name.id.or_else(|| item.id.clone());
        match &*item.kind {
            "function_call" if item.status.as_deref() != Some("incomplete") => {
                self.items.end(&name, item, out);
            }
            // Without its content the server could not be told which one is meant, since it stores none.
            "reasoning" if item.encrypted_content.is_some() => out.keep(raw),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, kind: &str, response: wire::Response<'_>, out: &mut Out) {
        out.count(response.usage.map(Usage::from).unwrap_or_default());
        let reason = response.incomplete_details.reason.unwrap_or_default();
        match (kind, response.error) {
            ("response.failed", Some(error)) => out.fail_with(error),
            ("response.failed", None) => {
                out.fail(Fault::new(
                    FaultClass::Transient,
                    "the server broke off the answer, with no word why",
                ));
            }
            ("response.incomplete", _) if reason == "content_filter" => out.end(Stop::Filtered),
            ("response.incomplete", _) => out.end(Stop::Length),
            _ if self.refused => out.end(Stop::Refused),
            _ if out.has_calls() => out.end(Stop::Calls),
            _ => out.end(Stop::Answer),
        }
    }
}
