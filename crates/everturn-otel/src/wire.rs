//! The way to the collector: one body out, within a bounded time.

#[cfg(test)]
mod tests;

use std::{
    error::Error as _,
    io::Read,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use everturn_core::{Error, Result};
use reqwest::{
    StatusCode, Url,
    blocking::{Client, Response},
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::Options;

/// How much of an answer is read, in bytes.
const ANSWER_MAX: u64 = 64 * 1024;
/// The waits before a second attempt and a third, unless the collector asks for longer ones.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// What is delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

/// Delivers to one collector. It blocks its thread, so none that runs a runtime may have it.
#[derive(Debug)]
pub(crate) struct Wire {
    client: Client,
    traces: Url,
    metrics: Url,
    headers: HeaderMap,
    timeout: Duration,
    pauses: [Duration; 2],
    /// Whether the last delivery failed: said once, and again after one that worked.
    is_failing: AtomicBool,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// Why a delivery did not work, and whether another attempt may.
struct Refused {
    why: String,
    again: Option<Duration>,
}

impl Wire {
    /// A wire without connections.
    ///
    /// Errors: `Invalid` where the endpoint or a header is wrong, or the system gives no HTTP client.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let traces = options.url("v1/traces")?;
        let mut headers = options.header_map()?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")))
            // A redirect could carry the key to another host.
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .timeout(options.timeout)
            .connect_timeout(options.timeout);
        // Most collectors stand on the same machine, where no proxy finds them.
        let client = if is_here(&traces) { client.no_proxy() } else { client };
        let client = client.build().map_err(|fault| {
            Error::invalid(format!("set up the HTTP client for telemetry: {}", cause(&fault)))
                .caused_by(fault)
        })?;
        Ok(Self {
            client,
            traces,
            metrics: options.url("v1/metrics")?,
            headers,
            timeout: options.timeout,
            pauses: PAUSES,
            is_failing: AtomicBool::new(false),
            is_over: Mutex::new(false),
            over: Condvar::new(),
        })
    }

    /// Delivers a body and gives the answer, or says why it did not arrive.
    ///
    /// Promise: at most three attempts, each within the timeout; none after a wait that is longer than it. From
    /// [`end`](Self::end) on, one attempt.
    pub(crate) fn post(&self, signal: Signal, body: &[u8]) -> Result<Vec<u8>, String> {
        let mut pauses = self.pauses.into_iter();
        let answer = loop {
            let refused = match self.attempt(signal, body.to_vec()) {
                Ok(answer) => break Ok(answer),
                Err(refused) => refused,
            };
            let wait = refused.again.and_then(|asked| Some(asked.max(pauses.next()?)));
            match wait.filter(|wait| *wait <= self.timeout) {
                Some(wait) if !self.wait(wait) => {}
                _ => break Err(refused.why),
            }
        };
        let was_failing = self.is_failing.swap(answer.is_err(), Relaxed);
        if let (Err(why), false) = (&answer, was_failing) {
            tracing::warn!(why, ?signal, "telemetry did not arrive");
        }
        answer
    }

    /// No delivery waits for another attempt any more.
    pub(crate) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.notify_all();
    }

    /// Waits; gives whether it ended meanwhile.
    fn wait(&self, pause: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_over, _) = self
            .over
            .wait_timeout_while(is_over, pause, |is_over| !*is_over)
            .unwrap_or_else(PoisonError::into_inner);
        *is_over
    }

    fn attempt(&self, signal: Signal, body: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let url = match signal {
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
        };
        let sent = self.client.post(url.clone()).headers(self.headers.clone()).body(body).send();
        let response = sent.map_err(|fault| Refused {
            why: cause(&fault),
            // A collector that is started anew refuses connections for a moment; one that hangs has had its time.
            again: (fault.is_connect() && !fault.is_timeout()).then_some(Duration::ZERO),
        })?;
        answer(response)
    }
}

/// What the collector says; a status that is no success is a refusal.
fn answer(response: Response) -> Result<Vec<u8>, Refused> {
    let status = response.status();
    if !status.is_success() {
        // The protocol says which refusals may pass ("OTLP Specification 1.9", failures).
        let may_pass = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let again = may_pass.contains(&status).then(|| Duration::from_secs(asked.unwrap_or(0)));
        return Err(Refused { why: format!("the collector answered {status}"), again });
    }
    let mut bytes = Vec::new();
    match response.take(ANSWER_MAX).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(fault) => Err(Refused { why: format!("read the collector's answer: {fault}"), again: None }),
    }
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The innermost cause: the outer ones say no more than that a request failed, and show its whole URL.
fn cause(fault: &reqwest::Error) -> String {
    let causes =
        std::iter::successors(fault.source(), |error: &&(dyn std::error::Error + 'static)| (*error).source());
    match causes.last() {
        _ if fault.is_timeout() => "it took too long".into(),
        Some(innermost) => innermost.to_string(),
        None => "the HTTP client gave no cause".into(),
    }
}

/// TLS with the system's certificates and a provider of cryptography that is named here, so that nothing in the
/// process has to install one.
fn tls() -> Result<ClientConfig> {
    let wrong = |fault: rustls::Error| Error::invalid(format!("set up TLS: {fault}")).caused_by(fault);
    let builder = || {
        ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(wrong)
    };
    match builder()?.with_platform_verifier() {
        Ok(config) => Ok(config.with_no_client_auth()),
        // A system without certificates can still speak to a collector of its own over plain HTTP.
        Err(_) => Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth()),
    }
}
