//! What the command exports of what it does, where OpenTelemetry's variables name a collector.

use std::sync::{Mutex, MutexGuard, PoisonError};

use everturn::{
    Harness,
    otel::{self, Options, Telemetry},
};
use tracing_subscriber::{Layer, Registry};

use crate::{config::variable, exit::Failure};

/// Of the whole process, as what it is fed from is.
static TELEMETRY: Mutex<Option<Telemetry>> = Mutex::new(None);

fn telemetry() -> MutexGuard<'static, Option<Telemetry>> {
    TELEMETRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to export; gives the layer of it, if any.
pub(crate) fn start() -> Result<Option<impl Layer<Registry> + Send + Sync>, Failure> {
    let wrong = |error: everturn::Error| Failure::usage(error.to_string());
    let Some(options) = Options::from_variables(variable).map_err(wrong)? else { return Ok(None) };
    let started = otel::start(options).map_err(wrong)?;
    let layer = started.layer();
    *telemetry() = Some(started);
    Ok(Some(layer))
}

/// Exports what a harness counts, too.
pub(crate) fn count(harness: &Harness) {
    if let Some(telemetry) = &*telemetry() {
        let harness = harness.clone();
        telemetry.metrics(move || harness.metrics());
    }
}

/// Sends what waits, and says what did not arrive.
pub(crate) fn end() {
    let Some(delivered) = telemetry().take().map(Telemetry::shutdown) else { return };
    if !delivered.is_whole() {
        let metrics = if delivered.metrics_lost { " and the last metrics" } else { "" };
        eprintln!("everturn: export telemetry: {} spans{metrics} did not arrive", delivered.spans_lost);
    }
}
