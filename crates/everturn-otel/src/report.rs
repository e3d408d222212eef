//! What a harness counted, as OTLP: pure, a snapshot in and a request out.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use everturn_core::model::ModelRef;
use everturn_engine::{
    Metrics,
    metrics::{Histogram as Counted, ModelMetrics},
};
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point::Value,
    },
    resource::v1::Resource,
};
use reqwest::Url;

use crate::names;

/// From when to when something was counted, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) since: u64,
    pub(crate) now: u64,
}

/// All metrics, under the names of the conventions where they have one.
pub(crate) fn request(
    resource: &[(String, String)],
    m: &Metrics,
    interval: Interval,
) -> ExportMetricsServiceRequest {
    let mut report = Report { interval, metrics: Vec::new() };
    report.now(("everturn.sessions.open", "{session}"), m.open_sessions);
    report.now(("everturn.turns.active", "{turn}"), m.active_turns);
    report.now(("everturn.submissions.queued", "{submission}"), m.queued);
    report.now(("everturn.approvals.open", "{approval}"), m.open_approvals);
    report.words(("everturn.turns", "{turn}"), names::END, &m.turns);
    report.sum(("everturn.steps", "{step}"), [number(Value::AsInt(int(m.steps)))]);
    report.histogram((names::AGENT_DURATION, "s"), [(Vec::new(), &m.turn_ms)]);
    report.words(("everturn.requests", "{request}"), names::END, &m.requests);
    report.sum(("everturn.retries", "{request}"), [number(Value::AsInt(int(m.retries)))]);
    report.sum(("everturn.cost", "{USD}"), [number(Value::AsDouble(m.cost as f64 / 1e9))]);
    report.words(("everturn.calls", "{call}"), names::OUTCOME, &m.calls);
    report.sum(("everturn.refusals", "{call}"), [number(Value::AsInt(int(m.refusals())))]);
    report.sum(("everturn.compactions", "{compaction}"), [number(Value::AsInt(int(m.compactions)))]);
    report.histogram(("everturn.commit.duration", "s"), [(Vec::new(), &m.commit_ms)]);
    report.histogram(("everturn.line.duration", "s"), [(Vec::new(), &m.line_ms)]);
    report.models(&m.models);

    let scope = InstrumentationScope {
        name: "everturn".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let resource = resource.iter().map(|(name, value)| text(name, value)).collect();
    let resource = Resource { attributes: resource, ..Resource::default() };
    let scoped = ScopeMetrics { scope: Some(scope), metrics: report.metrics, ..ScopeMetrics::default() };
    let metrics = ResourceMetrics {
        resource: Some(resource),
        scope_metrics: vec![scoped],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
}

/// A request in the making.
struct Report {
    interval: Interval,
    metrics: Vec<Metric>,
}

impl Report {
    /// What is so now.
    fn now(&mut self, what: (&str, &str), value: u64) {
        let points = self.timed([number(Value::AsInt(int(value)))]);
        self.add(what, Data::Gauge(Gauge { data_points: points }));
    }

    /// What was counted so far.
    fn sum(&mut self, what: (&str, &str), points: impl IntoIterator<Item = NumberDataPoint>) {
        let data_points = self.timed(points);
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        self.add(what, Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true }));
    }

    fn words(&mut self, what: (&str, &str), label: &str, counts: &BTreeMap<&'static str, u64>) {
        let point = |(word, count): (&&str, &u64)| NumberDataPoint {
            attributes: vec![text(label, word)],
            ..number(Value::AsInt(int(*count)))
        };
        self.sum(what, counts.iter().map(point));
    }

    fn histogram<'a>(
        &mut self,
        what: (&str, &str),
        counted: impl IntoIterator<Item = (Vec<KeyValue>, &'a Counted)>,
    ) {
        let data_points =
            counted.into_iter().map(|(attributes, one)| self.buckets(attributes, one)).collect();
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        self.add(what, Data::Histogram(Histogram { data_points, aggregation_temporality }));
    }

    fn buckets(&self, attributes: Vec<KeyValue>, counted: &Counted) -> HistogramDataPoint {
        let within: u64 = counted.buckets.iter().sum();
        let beyond = counted.count.saturating_sub(within);
        HistogramDataPoint {
            attributes,
            start_time_unix_nano: self.interval.since,
            time_unix_nano: self.interval.now,
            count: counted.count,
            sum: Some(counted.sum_ms as f64 / 1e3),
            bucket_counts: counted.buckets.iter().copied().chain([beyond]).collect(),
            explicit_bounds: Counted::BOUNDS.iter().map(|bound| *bound as f64 / 1e3).collect(),
            ..HistogramDataPoint::default()
        }
    }

    /// What was counted by model.
    fn models(&mut self, models: &BTreeMap<String, ModelMetrics>) {
        let models: Vec<_> = models.iter().map(|(name, model)| (of_model(name), model)).collect();
        let durations = models.iter().flat_map(|(of, model)| {
            model.request_ms.iter().map(move |(fault, took)| {
                let fault = fault.iter().map(|fault| text(names::ERROR_TYPE, fault));
                (of.iter().cloned().chain(fault).collect(), took)
            })
        });
        self.histogram((names::INFERENCE_DURATION, "s"), durations);
        let first = models.iter().filter(|(_, model)| model.first_ms.count > 0);
        self.histogram((names::FIRST_CHUNK, "s"), first.map(|(of, model)| (of.clone(), &model.first_ms)));
        let tokens = |count: fn(&ModelMetrics) -> Option<u64>| {
            let point = move |(of, model): &(Vec<KeyValue>, &ModelMetrics)| {
                let attributes = of.iter().cloned().chain([text(names::MODALITY, "unknown")]).collect();
                Some(NumberDataPoint { attributes, ..number(Value::AsInt(int(count(model)?))) })
            };
            models.iter().filter_map(point).collect::<Vec<_>>()
        };
        self.sum((names::INPUT, "{token}"), tokens(|model| model.usage.input));
        self.sum((names::OUTPUT, "{token}"), tokens(|model| model.usage.output));
        self.sum((names::CACHE_READ, "{token}"), tokens(|model| model.usage.cached));
        self.sum((names::CACHE_WRITE, "{token}"), tokens(|model| model.usage.cache_written));
        self.sum((names::REASONING, "{token}"), tokens(|model| model.usage.reasoning));
    }

    fn timed(&self, points: impl IntoIterator<Item = NumberDataPoint>) -> Vec<NumberDataPoint> {
        let Interval { since, now } = self.interval;
        let timed = |point| NumberDataPoint { start_time_unix_nano: since, time_unix_nano: now, ..point };
        points.into_iter().map(timed).collect()
    }

    /// Adds a metric, unless there is nothing to say of it.
    fn add(&mut self, (name, unit): (&str, &str), data: Data) {
        let is_empty = match &data {
            Data::Gauge(gauge) => gauge.data_points.is_empty(),
            Data::Sum(sum) => sum.data_points.is_empty(),
            Data::Histogram(histogram) => histogram.data_points.is_empty(),
            _ => false,
        };
        if !is_empty {
            let (name, unit) = (name.to_owned(), unit.to_owned());
            self.metrics.push(Metric { name, unit, data: Some(data), ..Metric::default() });
        }
    }
}

/// Says which model was asked.
fn of_model(name: &str) -> Vec<KeyValue> {
    let Ok(ModelRef { provider, model, endpoint }) = name.parse() else {
        return vec![text(names::OPERATION, "chat"), text(names::MODEL, name)];
    };
    let mut of =
        vec![text(names::OPERATION, "chat"), text(names::PROVIDER, &provider), text(names::MODEL, &model)];
    // Host and port only: a path or a query may hold a key.
    if let Some(url) = endpoint.and_then(|endpoint| Url::parse(&endpoint).ok()) {
        of.extend(url.host_str().map(|host| text(names::SERVER, host)));
        let port = url.port_or_known_default().map(|port| any_value::Value::IntValue(port.into()));
        of.extend(port.map(|port| attribute(names::PORT, port)));
    }
    of
}

fn number(value: Value) -> NumberDataPoint {
    NumberDataPoint { value: Some(value), ..NumberDataPoint::default() }
}

fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, any_value::Value::StringValue(value.to_owned()))
}

fn attribute(name: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
