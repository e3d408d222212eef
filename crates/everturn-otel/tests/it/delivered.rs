//! What arrives.

use std::collections::BTreeMap;

use everturn_otel::{Delivered, Options};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse},
    metrics::v1::{Metric, metric::Data, number_data_point::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;

use crate::{
    collector::{Collector, attributes},
    scene::{MARK, Scene},
};

/// How many spans the turns of the scene have.
pub(crate) const SPANS: u64 = 7;

fn arrived() -> Delivered {
    Delivered { spans: SPANS, spans_lost: 0, metrics_lost: false }
}

/// The names of the spans around a span, the outermost first, and its own.
fn path(span: &Span, all: &[Span]) -> String {
    match all.iter().find(|other| other.span_id == span.parent_span_id) {
        Some(parent) => format!("{} > {}", path(parent, all), span.name),
        None => span.name.clone(),
    }
}

fn named(name: &str, all: &[Span]) -> Vec<(Span, BTreeMap<String, String>)> {
    let named = all.iter().filter(|span| span.name == name);
    named.map(|span| (span.clone(), attributes(&span.attributes))).collect()
}

/// The attributes of these names.
fn some<'a>(of: &'a BTreeMap<String, String>, names: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    names.iter().map(|name| (*name, of.get(*name).map_or("", |value| value))).collect()
}

#[tokio::test]
async fn a_session_arrives_as_a_tree_of_turns_requests_and_calls() {
    let collector = Collector::new();
    assert_eq!(Scene::default().play(Options::new(&collector.endpoint)).await, arrived());

    let spans = collector.spans();
    let mut paths: Vec<_> = spans.iter().map(|span| path(span, &spans)).collect();
    paths.sort();
    let expected = [
        "session",
        "session > invoke_agent",
        "session > invoke_agent",
        "session > invoke_agent > chat small",
        "session > invoke_agent > chat small",
        "session > invoke_agent > chat small",
        "session > invoke_agent > execute_tool look",
    ];
    assert_eq!(paths, expected);
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id), "all stand in one trace");
    for span in &spans {
        let kind = if span.name.starts_with("chat") { SpanKind::Client } else { SpanKind::Internal };
        assert_eq!(span.kind(), kind, "{}", span.name);
    }
}

// A step is no span of its own for a collector, unless something else in the process wants it; then what is in it was lost
// from the tree. Guards that requests and calls keep their place.
#[tokio::test]
async fn the_tree_hangs_together_where_another_layer_wants_finer_spans() {
    let collector = Collector::new();
    assert!(
        Scene { is_fine: true, ..Scene::default() }.play(Options::new(&collector.endpoint)).await.is_whole()
    );
    let spans = collector.spans();
    let paths = spans.iter().map(|span| path(span, &spans));
    let mut paths: Vec<_> = paths.filter(|path| !path.ends_with("step")).collect();
    paths.sort();
    let expected = [
        "session",
        "session > invoke_agent",
        "session > invoke_agent",
        "session > invoke_agent > step > chat small",
        "session > invoke_agent > step > chat small",
        "session > invoke_agent > step > chat small",
        "session > invoke_agent > step > execute_tool look",
    ];
    assert_eq!(paths, expected);
}

#[tokio::test]
async fn spans_have_the_attributes_of_the_conventions() {
    let collector = Collector::new();
    Scene::default().play(Options::new(&collector.endpoint)).await;
    let spans = collector.spans();
    let session = &named("session", &spans)[0].1["gen_ai.conversation.id"];

    let [(_, answered), (failed, _)] = named("invoke_agent", &spans).try_into().unwrap();
    let expected = [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.conversation.id", session),
        ("gen_ai.usage.input_tokens", "30"),
        ("gen_ai.usage.output_tokens", "12"),
        ("outcome", "answered"),
        ("error.type", ""),
    ];
    assert_eq!(some(&answered, &expected.map(|(name, _)| name)), expected);
    let status = failed.status.unwrap();
    assert_eq!((status.code(), &*status.message), (StatusCode::Error, "auth"));

    let (_, request) = &named("chat small", &spans)[0];
    let expected = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "scripted"),
        ("gen_ai.request.model", "small"),
        ("gen_ai.request.stream", "true"),
        ("gen_ai.conversation.id", session),
        ("gen_ai.response.finish_reasons", r#"["tool_call"]"#),
        ("gen_ai.usage.input_tokens", "10"),
        ("gen_ai.usage.output_tokens", "5"),
    ];
    assert_eq!(some(request, &expected.map(|(name, _)| name)), expected);
    assert!(request.contains_key("gen_ai.response.time_to_first_chunk"));

    let (_, call) = &named("execute_tool look", &spans)[0];
    let expected = [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "look"),
        ("gen_ai.conversation.id", session),
        ("outcome", "ok"),
    ];
    assert_eq!(some(call, &expected.map(|(name, _)| name)), expected);
    assert!(call["gen_ai.tool.call.id"].starts_with('c'));
}

/// The values of a sum or a gauge, each with its attributes.
fn values(metric: &Metric) -> Vec<(BTreeMap<String, String>, f64)> {
    let points = match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => &sum.data_points,
        other => panic!("{} is {other:?}", metric.name),
    };
    let value = |value: &Value| match value {
        Value::AsInt(count) => *count as f64,
        Value::AsDouble(number) => *number,
    };
    points.iter().map(|point| (attributes(&point.attributes), value(point.value.as_ref().unwrap()))).collect()
}

fn labels<const N: usize>(of: [(&str, &str); N]) -> BTreeMap<String, String> {
    of.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn what_the_harness_counted_arrives_as_metrics() {
    let collector = Collector::new();
    let attributes = vec![("service.instance.id".into(), "one".into())];
    let options = Options { service: "shop".into(), attributes, ..Options::new(&collector.endpoint) };
    Scene::default().play(options).await;
    let (metrics, resource) = collector.metrics();
    assert_eq!(resource, labels([("service.name", "shop"), ("service.instance.id", "one")]));

    assert_eq!(values(&metrics["everturn.turns.active"]), [(labels([]), 0.0)]);
    assert_eq!(values(&metrics["everturn.steps"]), [(labels([]), 3.0)]);
    let turns = values(&metrics["everturn.turns"]);
    assert!(turns.contains(&(labels([("everturn.end", "answered")]), 1.0)), "{turns:?}");
    assert!(turns.contains(&(labels([("everturn.end", "failed")]), 1.0)), "{turns:?}");
    let model = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "scripted"),
        ("gen_ai.request.model", "small"),
    ];
    let [operation, provider, name] = model;
    let tokens = labels([operation, provider, name, ("gen_ai.token.modality", "unknown")]);
    assert_eq!(values(&metrics["gen_ai.client.inference.usage.input_tokens"]), [(tokens.clone(), 30.0)]);
    assert_eq!(values(&metrics["gen_ai.client.inference.usage.output_tokens"]), [(tokens, 12.0)]);

    let counts = |metric: &str| match metrics[metric].data.as_ref().unwrap() {
        Data::Histogram(histogram) => {
            let points = histogram.data_points.iter();
            points
                .map(|point| (crate::collector::attributes(&point.attributes), point.count))
                .collect::<Vec<_>>()
        }
        other => panic!("{metric} is {other:?}"),
    };
    let faulted = labels([operation, provider, name, ("error.type", "auth")]);
    assert_eq!(counts("gen_ai.client.inference.duration"), [(labels(model), 2), (faulted, 1)]);
    assert_eq!(counts("gen_ai.client.inference.time_to_first_chunk"), [(labels(model), 3)]);
    assert_eq!(counts("gen_ai.invoke_agent.duration"), [(labels([]), 2)]);
    assert!(counts("everturn.commit.duration")[0].1 > 3);
}

#[tokio::test]
async fn nothing_that_was_said_is_exported() {
    let collector = Collector::new();
    Scene::default().play(Options::new(&collector.endpoint)).await;
    let is_marked = |body: &[u8]| body.windows(MARK.len()).any(|bytes| bytes == MARK.as_bytes());
    let marked: Vec<_> = collector.sent().into_iter().filter(|sent| is_marked(&sent.body)).collect();
    assert!(marked.is_empty(), "{marked:?}");
}

#[tokio::test]
async fn what_was_said_is_exported_where_the_host_wants_it() {
    let collector = Collector::new();
    Scene { trace_content: true, ..Scene::default() }.play(Options::new(&collector.endpoint)).await;
    let mut marked: Vec<(String, String)> = Vec::new();
    for span in collector.spans() {
        let said = attributes(&span.attributes).into_iter().filter(|(_, value)| value.contains(MARK));
        marked.extend(said.map(|(name, _)| (span.name.clone(), name)));
    }
    marked.sort();
    marked.dedup();
    let expected = [
        ("chat small", "gen_ai.input.messages"),
        ("chat small", "gen_ai.output.messages"),
        ("execute_tool look", "gen_ai.tool.call.arguments"),
        ("execute_tool look", "gen_ai.tool.call.result"),
    ];
    assert_eq!(marked, expected.map(|(span, name)| (span.to_owned(), name.to_owned())));
}

#[tokio::test]
async fn headers_go_with_everything_as_protobuf() {
    let collector = Collector::new();
    let headers = vec![("X-Api-Key".into(), "a-key".to_owned().into())];
    let options = Options { headers, ..Options::new(format!("{}/behind/", collector.endpoint)) };
    Scene::default().play(options).await;
    let mut sent: Vec<_> = collector.sent().into_iter().map(|sent| (sent.path, sent.headers)).collect();
    sent.sort();
    let paths: Vec<_> = sent.iter().map(|(path, _)| &**path).collect();
    assert_eq!(paths, ["/behind/v1/metrics", "/behind/v1/traces"]);
    for (_, headers) in sent {
        assert_eq!((&*headers["x-api-key"], &*headers["content-type"]), ("a-key", "application/x-protobuf"));
    }
}

#[tokio::test]
async fn what_the_collector_rejects_counts_as_lost() {
    let collector = Collector::answering(|path| {
        let partial_success =
            ExportTracePartialSuccess { rejected_spans: 3, error_message: "too many".into() };
        let answer = ExportTraceServiceResponse { partial_success: Some(partial_success) };
        if path == "/v1/traces" { (200, answer.encode_to_vec()) } else { (400, Vec::new()) }
    });
    let delivered = Scene::default().play(Options::new(&collector.endpoint)).await;
    assert_eq!(delivered, Delivered { spans: SPANS - 3, spans_lost: 3, metrics_lost: true });
}
