//! A collector on the loopback: keeps what it is sent, and answers as it is told.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, KeyValue, any_value::Value},
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message;

/// What was sent in one request.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) path: String,
    /// The headers, under their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A collector that listens until the process ends.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Collector {
    /// A collector that takes everything.
    pub(crate) fn new() -> Self {
        Self::answering(|_| (200, Vec::new()))
    }

    /// A collector that answers a path with a status and a body.
    pub(crate) fn answering(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let sent = Arc::<Mutex<Vec<Sent>>>::default();
        let kept = sent.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&stream);
                let (status, body) = answer(&request.path);
                kept.lock().unwrap().push(request);
                let head = format!(
                    "HTTP/1.1 {status} So\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(&[head.into_bytes(), body].concat()).unwrap();
            }
        });
        Self { endpoint, sent }
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    fn to(&self, path: &str) -> Vec<Vec<u8>> {
        let to = self.sent().into_iter().filter(|sent| sent.path == path);
        to.map(|sent| sent.body).collect()
    }

    /// All spans, in the order of their ends.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self.to("/v1/traces").into_iter();
        let requests = requests.map(|body| ExportTraceServiceRequest::decode(&*body).unwrap());
        let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|one| one.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// The last report of metrics, by their names, and the attributes of who reports.
    pub(crate) fn metrics(&self) -> (BTreeMap<String, Metric>, BTreeMap<String, String>) {
        let last = self.to("/v1/metrics").pop().expect("a report has arrived");
        let mut report = ExportMetricsServiceRequest::decode(&*last).unwrap().resource_metrics;
        let report = report.pop().expect("a report has a resource");
        let metrics = report.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
        let resource = attributes(&report.resource.unwrap().attributes);
        (metrics.map(|metric| (metric.name.clone(), metric)).collect(), resource)
    }
}

fn read(stream: &TcpStream) -> Sent {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let path = first.split(' ').nth(1).expect("a request has a path").to_owned();
    let headers: BTreeMap<String, String> =
        std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()))
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap();
                (name.to_lowercase(), value.trim().to_owned())
            })
            .collect();
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    Sent { path, headers, body }
}

/// Attributes as text.
pub(crate) fn attributes(of: &[KeyValue]) -> BTreeMap<String, String> {
    of.iter().map(|one| (one.key.clone(), one.value.as_ref().map(text).unwrap_or_default())).collect()
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().expect("an attribute has a value") {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(is_so) => is_so.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::ArrayValue(list) => format!("{:?}", list.values.iter().map(text).collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}
