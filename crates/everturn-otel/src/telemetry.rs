//! Export that runs: threads of its own, which end with it.

use std::{
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Sender, channel, sync_channel},
    },
    thread,
    time::Duration,
};

use everturn_core::{Error, Result, clock::Clock};
use everturn_engine::{Metrics, SystemClock};
use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanLimits},
};
use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter, subscriber::Interest};
use tracing_subscriber::{
    Layer,
    layer::{Context, Filter},
    registry::LookupSpan,
};

use crate::{
    Options, names,
    reporter::{Note, Reporter},
    spans::{Counting, Counts, Exporter},
    wire::Wire,
};

/// How many ended spans wait for a delivery; what ends past that is lost, and nobody waits.
const WAITING_MAX: usize = 8_192;
/// How many spans go in one delivery.
const BATCH_MAX: usize = 512;
/// How long an ended span waits for others to go with.
const BATCH_DELAY: Duration = Duration::from_secs(5);

/// Begins to export. Nothing is sent before something has happened, and no connection is tried.
///
/// It may be called from anywhere: what it sets up lives on threads of its own.
///
/// Errors: `Invalid` where the endpoint or a header is wrong, or the system gives no threads or no HTTP client.
///
/// ```
/// use everturn_otel::Options;
/// assert!(everturn_otel::start(Options::new("grpc://127.0.0.1:4317")).is_err());
/// ```
pub fn start(options: Options) -> Result<Telemetry> {
    // A blocking HTTP client must neither be made nor dropped on a thread that runs a runtime.
    let started = spawn("everturn-otel", move || Telemetry::new(options))?.join();
    started.unwrap_or_else(|_| Err(Error::invalid("start to export telemetry: setting it up panicked")))
}

/// Export that runs, until it is shut down. Dropped without that, it still exports spans, but no metrics.
///
/// ```
/// # fn main() -> everturn_core::Result<()> {
/// use everturn_otel::Options;
/// use tracing_subscriber::prelude::*;
///
/// let telemetry = everturn_otel::start(Options::new("http://127.0.0.1:4318"))?;
/// let subscriber = tracing_subscriber::registry().with(telemetry.layer());
/// let delivered = telemetry.shutdown();
/// assert_eq!((delivered.spans, delivered.spans_lost, delivered.metrics_lost), (0, 0, false));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    reporter: Sender<Note>,
    wire: std::sync::Weak<Wire>,
    counts: Arc<Counts>,
    timeout: Duration,
}

/// What arrived at the collector, and what did not.
///
/// ```
/// use everturn_otel::Delivered;
/// let delivered = Delivered { spans: 12, spans_lost: 0, metrics_lost: false };
/// assert!(delivered.is_whole());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// How many spans the collector took.
    pub spans: u64,
    /// How many spans ended and are not known to have arrived: refused, timed out, or more than could wait.
    pub spans_lost: u64,
    /// Whether the last report of metrics is not known to have arrived.
    pub metrics_lost: bool,
}

impl Delivered {
    /// Whether all arrived.
    pub fn is_whole(&self) -> bool {
        self.spans_lost == 0 && !self.metrics_lost
    }
}

impl Telemetry {
    fn new(options: Options) -> Result<Self> {
        let wire = Arc::new(Wire::new(&options)?);
        let counts = Arc::<Counts>::default();
        let mut attributes = vec![(names::SERVICE.to_owned(), options.service)];
        attributes.extend(options.attributes);

        let exporter = Exporter {
            wire: wire.clone(),
            counts: counts.clone(),
            resource: ResourceAttributesWithSchema::default(),
        };
        // All is said here, so that no variable of the environment changes it.
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(WAITING_MAX)
            .with_max_export_batch_size(BATCH_MAX)
            .with_scheduled_delay(BATCH_DELAY);
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        let pairs = attributes.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_span_limits(SpanLimits::default())
            .with_resource(Resource::builder_empty().with_attributes(pairs).build())
            .with_span_processor(Counting { batches, counts: counts.clone() })
            .build();

        let (sender, notes) = channel();
        let (every, since) = (options.every, SystemClock.now());
        let kept = Arc::downgrade(&wire);
        let reporter = Reporter { wire, counts: counts.clone(), resource: attributes, every, since, notes };
        spawn("everturn-otel-metrics", move || reporter.run())?;
        let tracer = provider.tracer("everturn");
        Ok(Self { provider, tracer, reporter: sender, wire: kept, counts, timeout: options.timeout })
    }

    /// The layer that exports spans, and the events in them, of level `INFO` and above; steps too, where another layer wants
    /// them.
    ///
    /// Shape: a filter around it can only take away. Ended spans are handed over without waiting, whatever the collector does.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.clone())
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(Coarse)
    }

    /// Reports what is read here, every so often and once more at the end. The last reader that was given is asked.
    ///
    /// Shape: it is asked on a thread of this export, and must not wait for anything. It keeps what it holds alive.
    pub fn metrics(&self, read: impl Fn() -> Metrics + Send + 'static) {
        // The thread ends before its sender only where it panicked, and then there is nobody to report.
        self.reporter.send(Note::Read(Box::new(read))).ok();
    }

    /// Sends what waits, and ends.
    ///
    /// Promise: it returns within [`timeout`](Options::timeout), whatever the collector does, and says what is not known to
    /// have arrived. It blocks its thread so long: in a runtime, call it from `spawn_blocking`. A span that has not ended
    /// is not sent, so close sessions first.
    pub fn shutdown(self) -> Delivered {
        let Self { provider, reporter, wire, counts, timeout, .. } = self;
        wire.upgrade().iter().for_each(|wire| wire.end());
        let (done, both) = sync_channel(1);
        // Spans and metrics have the same time, together. What of them arrived is counted as it does.
        let ending = spawn("everturn-otel-end", move || {
            let (told, reported) = sync_channel(1);
            reporter.send(Note::Last(told)).ok();
            provider.shutdown_with_timeout(timeout).ok();
            reported.recv().ok();
            done.send(()).ok();
        });
        if ending.is_ok() {
            both.recv_timeout(timeout).ok();
        }
        let spans = counts.arrived.load(Relaxed);
        let spans_lost = counts.ended.load(Relaxed).saturating_sub(spans);
        Delivered { spans, spans_lost, metrics_lost: !counts.is_reported.load(Relaxed) }
    }
}

/// Lets through what is worth exporting.
struct Coarse;

impl Coarse {
    fn lets(metadata: &Metadata<'_>) -> bool {
        // A step is of level `DEBUG`. Where it exists, what is in it would lose its place in the tree without it.
        let is_step = metadata.name() == "step" && metadata.target().starts_with("everturn_engine");
        *metadata.level() <= Level::INFO || is_step
    }
}

impl<S> Filter<S> for Coarse {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::lets(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::lets(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // So that no step exists for this layer alone.
        Some(LevelFilter::INFO)
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|fault| Error::invalid(format!("start a thread for telemetry: {fault}")).caused_by(fault))
}
