//! Spans on their way to the collector.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use opentelemetry::{Array, Context, KeyValue, Value, trace::Status};
use opentelemetry_proto::{
    tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    transform::{
        common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor},
};
use prost::Message as _;

use crate::{
    names,
    wire::{Signal, Wire},
};

/// What is known to have arrived.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// How many spans ended.
    pub(crate) ended: AtomicU64,
    /// How many of them arrived.
    pub(crate) arrived: AtomicU64,
    /// Whether the last report of metrics arrived, or there was nothing to report.
    pub(crate) is_reported: AtomicBool,
}

/// Sends batches of spans.
#[derive(Debug)]
pub(crate) struct Exporter {
    pub(crate) wire: Arc<Wire>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) resource: ResourceAttributesWithSchema,
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = batch.len() as u64;
        let spans = batch.into_iter().map(finished).collect();
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let answer = self.wire.post(Signal::Traces, &body).map_err(OTelSdkError::InternalFailure)?;
        // An answer that cannot be read is still one of success.
        let answer = ExportTraceServiceResponse::decode(&*answer).unwrap_or_default();
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        self.counts.arrived.fetch_add(sent.saturating_sub(u64::try_from(rejected).unwrap_or(0)), Relaxed);
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

/// A span in the words of the protocol, where `tracing` has none for them.
fn finished(mut span: SpanData) -> SpanData {
    for attribute in &mut span.attributes {
        // The conventions want a list: one reason for each answer, and there is one.
        if let (names::FINISH_REASONS, Value::String(reason)) = (attribute.key.as_str(), &attribute.value) {
            attribute.value = Value::Array(Array::String(vec![reason.clone()]));
        }
    }
    let error = span.attributes.iter().find(|KeyValue { key, .. }| key.as_str() == names::ERROR_TYPE);
    if let (Some(error), Status::Unset) = (error, &span.status) {
        span.status = Status::error(error.value.as_str().into_owned());
    }
    span
}

/// Counts spans that end, and hands them on.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) batches: BatchSpanProcessor,
    pub(crate) counts: Arc<Counts>,
}

impl SpanProcessor for Counting {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        self.counts.ended.fetch_add(1, Relaxed);
        self.batches.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}
