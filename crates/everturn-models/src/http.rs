//! The HTTP seam: one request out, and the bytes of its event stream in, or the fault that came instead.

use std::{
    error::Error as _,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use everturn_core::{
    Error, Result,
    clock::Clock,
    model::{Fault, FaultClass},
};
use futures_util::future::{Either, select};
use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::answer::Answer;

/// How much of an answer that is no stream is read, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// Sends requests to providers. Cloning is cheap, clones share their connections.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    clock: Arc<dyn Clock>,
    idle: Duration,
}

/// How an [`Http`] waits and connects.
pub(crate) struct HttpConfig {
    /// The longest silence: until the answer begins, and between its bytes.
    pub(crate) idle: Duration,
    /// The longest wait for a connection.
    pub(crate) connect: Duration,
    /// Whether to use the proxy of the system.
    pub(crate) system_proxy: bool,
}

impl Http {
    /// A client without connections.
    ///
    /// Errors: `Invalid` where the system gives no HTTP client.
    pub(crate) fn new(config: &HttpConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")))
            // A redirect could carry the key to another host.
            .redirect(Policy::none())
            // The turn decides about each attempt and has it on record.
            .retry(reqwest::retry::never())
            .connect_timeout(config.connect);
        let client = if config.system_proxy { client } else { client.no_proxy() };
        let client = client.build().map_err(|fault| {
            Error::invalid(format!("set up the HTTP client: {}", cause(&fault))).caused_by(fault)
        })?;
        Ok(Self { client, clock, idle: config.idle })
    }

    /// Sends a JSON body and waits for the answer to begin.
    ///
    /// Errors: a fault whenever the answer is no event stream.
    pub(crate) async fn post(&self, url: Url, mut headers: HeaderMap, body: Vec<u8>) -> Result<Body, Fault> {
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let send = self.client.post(url).headers(headers).body(body).send();
        let response = match select(pin!(send), self.clock.sleep(self.idle)).await {
            Either::Left((sent, _)) => sent.map_err(|fault| not_sent(&fault))?,
            Either::Right(_) => return Err(silent(self.idle)),
        };
        let body = Body {
            request: header(&response, "x-request-id").or_else(|| header(&response, "request-id")),
            response,
            clock: self.clock.clone(),
            idle: self.idle,
        };
        match body.kind() {
            Kind::Stream => Ok(body),
            Kind::Redirect => Err(body.redirect()),
            Kind::Other => Err(body.no_stream().await),
        }
    }
}

/// The body of an answer.
pub(crate) struct Body {
    response: Response,
    clock: Arc<dyn Clock>,
    idle: Duration,
    /// The provider's id of the request.
    pub(crate) request: Option<String>,
}

enum Kind {
    Stream,
    Redirect,
    Other,
}

impl Body {
    /// The next bytes, as they come; none at the end.
    ///
    /// Errors: `transient` where the connection breaks, or is silent for too long.
    pub(crate) async fn next(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, Fault> {
        match select(pin!(self.response.chunk()), self.clock.sleep(self.idle)).await {
            Either::Left((Ok(bytes), _)) => Ok(bytes),
            Either::Left((Err(fault), _)) => {
                Err(Fault::new(FaultClass::Transient, format!("the connection broke: {}", cause(&fault))))
            }
            Either::Right(_) => Err(silent(self.idle)),
        }
    }

    fn kind(&self) -> Kind {
        let status = self.response.status();
        if status.is_redirection() {
            return Kind::Redirect;
        }
        match self.content_type().as_deref() {
            // Some servers leave the type out.
            None | Some("text/event-stream") if status.is_success() => Kind::Stream,
            _ => Kind::Other,
        }
    }

    /// The media type without its parameters, in lower case.
    fn content_type(&self) -> Option<String> {
        let text = header(&self.response, CONTENT_TYPE.as_str())?;
        Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// The fault that a redirect is.
    fn redirect(&self) -> Fault {
        let status = self.response.status().as_u16();
        let to = header(&self.response, LOCATION.as_str())
            .and_then(|to| self.response.url().join(&to).ok())
            .map_or("elsewhere".to_owned(), |to| to.origin().ascii_serialization());
        let message = format!(
            "status {status}: redirected to {to}, which is not followed, since the key is for this endpoint alone; \
             set the base URL to where the server is"
        );
        Fault { status: Some(status), ..Fault::new(FaultClass::Invalid, message) }
    }

    /// The fault that an answer which is no stream is.
    async fn no_stream(mut self) -> Fault {
        let mut body = Vec::new();
        while body.len() < ANSWER_MAX {
            // What came before a cut says enough, and the status says most.
            let Ok(Some(bytes)) = self.next().await else { break };
            body.extend_from_slice(bytes.as_ref());
        }
        body.truncate(ANSWER_MAX);
        if self.response.status().is_success() {
            return self.wrong_type(&body);
        }
        let headers: Vec<_> = self
            .response
            .headers()
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
            .collect();
        let answer = Answer {
            status: self.response.status().as_u16(),
            headers: &headers,
            body: &body,
            now: self.clock.now(),
        };
        answer.fault()
    }

    /// The fault that a success of the wrong type is: an error in JSON says what it is, anything else is not read.
    fn wrong_type(&self, body: &[u8]) -> Fault {
        let error = serde_json::from_slice::<serde_json::Value>(body)
            .ok()
            .and_then(|value| value.get("error").filter(|error| !error.is_null()).map(ToString::to_string));
        let kind = self.content_type().unwrap_or_default();
        let mut fault = match error {
            Some(error) => crate::answer::stream_fault(&error),
            None => Fault::new(
                FaultClass::Malformed,
                format!(
                    "the answer is {kind} and no event stream; check the base URL (it usually ends in /v1) and that \
                     the server can stream"
                ),
            ),
        };
        fault.status = Some(self.response.status().as_u16());
        fault.request.clone_from(&self.request);
        fault
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

fn silent(idle: Duration) -> Fault {
    let message = format!("no byte came for {} s, so the connection was given up", idle.as_secs_f64());
    Fault::new(FaultClass::Transient, message)
}

fn not_sent(fault: &reqwest::Error) -> Fault {
    let cause = cause(fault);
    if fault.is_builder() {
        Fault::new(FaultClass::Bug, format!("the request could not be built: {cause}"))
    } else if fault.is_connect() {
        let message =
            format!("no connection: {cause}; check that the server runs and that the address is right");
        Fault::new(FaultClass::Transient, message)
    } else {
        Fault::new(FaultClass::Transient, format!("the connection broke before an answer came: {cause}"))
    }
}

/// The innermost cause: the outer ones say no more than that a request failed, and show its whole URL.
fn cause(fault: &reqwest::Error) -> String {
    let mut innermost: Option<&dyn std::error::Error> = None;
    let mut source = fault.source();
    while let Some(error) = source {
        innermost = Some(error);
        source = error.source();
    }
    match innermost {
        Some(error) => error.to_string(),
        None if fault.is_timeout() => "it took too long".into(),
        None => "the HTTP client gave no cause".into(),
    }
}

/// TLS with the system's certificates and a provider of cryptography that is named here, so that nothing in the
/// process has to install one. All clients of a process have the same: reading the certificates is what setting one up
/// costs.
fn tls() -> Result<ClientConfig> {
    static READ: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = READ.get() {
        return Ok(config.clone());
    }
    let config = read_tls()?;
    Ok(READ.get_or_init(|| config).clone())
}

fn read_tls() -> Result<ClientConfig> {
    let wrong = |fault: rustls::Error| Error::invalid(format!("set up TLS: {fault}")).caused_by(fault);
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(wrong)
    };
    let mut config = match builder()?.with_platform_verifier() {
        Ok(config) => config.with_no_client_auth(),
        // A system without certificates can still speak to a server of its own over plain HTTP.
        Err(_) => builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
