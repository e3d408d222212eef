//! A provider's client: requests out over HTTP, answers in as deltas.

mod endpoint;

use std::{fmt, sync::Arc, time::Duration};

use everturn_core::{
    Result,
    clock::Clock,
    model::{Abilities, Delta, DeltaStream, Fault, FaultClass, Model, Request},
};
use futures_util::{FutureExt, StreamExt, stream};
use secrecy::{ExposeSecret, SecretString};

use self::endpoint::Endpoint;
use crate::{
    catalogue::{Catalogue, Row},
    decoder::Decoder,
    dialect::Dialect,
    http::{Body, Http, HttpConfig},
    sse,
};

/// How many tokens an answer may have of a model of which nothing else is known.
const ANSWER_MAX: u64 = 8192;

/// How a [`Client`] is set up.
///
/// ```
/// use everturn_models::ClientConfig;
///
/// let config = ClientConfig {
///     key: Some("a-key".to_owned().into()),
///     ..ClientConfig::new("https://openrouter.ai/api/v1")
/// };
/// assert!(!format!("{config:?}").contains("a-key"));
/// ```
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where requests go whose model names no endpoint; the dialect's path is put behind it.
    pub base_url: String,
    /// The key of [`base_url`](Self::base_url), sent nowhere else.
    pub key: Option<SecretString>,
    /// The key of any other endpoint that a model names.
    pub endpoint_key: Option<SecretString>,
    /// The longest silence, until an answer begins and between its bytes.
    pub idle: Duration,
    /// The longest wait for a connection.
    pub connect: Duration,
    /// How big an answer may be.
    pub limits: sse::Limits,
    /// Whether to use the proxy that the system names.
    pub system_proxy: bool,
    /// What is known of models.
    pub catalogue: Catalogue,
}

impl ClientConfig {
    /// The usual set-up for a base URL: no key, five minutes of silence at most, fifteen seconds to connect.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            key: None,
            endpoint_key: None,
            idle: Duration::from_secs(300),
            connect: Duration::from_secs(15),
            limits: sse::Limits::default(),
            system_proxy: true,
            catalogue: Catalogue::built_in(),
        }
    }
}

/// The models behind an endpoint that speaks `D`.
///
/// Promise: a key goes only to the endpoint that it was configured for; redirects are not followed, no fault's message
/// holds a key, and nothing is sent twice: each attempt is the turn's. Needs a tokio runtime with its I/O and time
/// while a stream is polled, and no other set-up.
/// Errors: faults name the endpoint's scheme, host and port, the model, what was found, and what to do.
///
/// ```
/// # use everturn_core::{BoxFuture, clock::{Clock, Timestamp}};
/// # struct Stopped;
/// # impl Clock for Stopped {
/// #     fn now(&self) -> Timestamp { Timestamp(0) }
/// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
/// # }
/// use std::sync::Arc;
/// use everturn_models::{Chat, ClientConfig};
///
/// let model = Chat::new(ClientConfig::new("http://127.0.0.1:8080/v1"), Arc::new(Stopped)).unwrap();
/// let error = Chat::new(ClientConfig::new("127.0.0.1:8080"), Arc::new(Stopped)).unwrap_err();
/// assert!(error.to_string().contains("http://HOST:PORT/v1"), "{error}");
/// ```
pub struct Client<D: Dialect> {
    http: Http,
    base: Endpoint<D>,
    endpoint_key: Option<SecretString>,
    limits: sse::Limits,
    catalogue: Catalogue,
    /// What no message may show.
    secrets: Arc<[SecretString]>,
}

impl<D: Dialect> Client<D> {
    /// Sets up the client, with what is known of the server by its host. Nothing is sent.
    ///
    /// Errors: `Invalid` when the base URL is none, or the key cannot stand in a header.
    pub fn new(config: ClientConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let http =
            HttpConfig { idle: config.idle, connect: config.connect, system_proxy: config.system_proxy };
        Ok(Self {
            http: Http::new(&http, clock)?,
            base: Endpoint::new(&config.base_url, config.key.as_ref())?,
            limits: config.limits,
            catalogue: config.catalogue,
            secrets: [&config.key, &config.endpoint_key].into_iter().flatten().cloned().collect(),
            endpoint_key: config.endpoint_key,
        })
    }

    /// The same client, which knows better what the server at its base URL takes.
    #[must_use]
    pub fn with_quirks(mut self, quirks: D) -> Self {
        self.base.dialect = quirks;
        self
    }

    /// Where a request goes, with the key for there.
    fn endpoint(&self, request: &Request) -> Result<Endpoint<D>> {
        let Some(url) = &request.endpoint else {
            return Ok(self.base.clone());
        };
        let other = Endpoint::new(url, self.endpoint_key.as_ref())?;
        Ok(if other.base == self.base.base { self.base.clone() } else { other })
    }

    fn place(&self, origin: String, model: &str) -> Place {
        Place { origin, model: model.to_owned(), key: D::KEY, secrets: self.secrets.clone() }
    }
}

impl<D: Dialect> fmt::Debug for Client<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", D::PROVIDER, self.base.origin())
    }
}

impl<D: Dialect> Model for Client<D> {
    fn stream(&self, request: Request) -> DeltaStream {
        let endpoint = match self.endpoint(&request) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                let place = self.place("a model's endpoint".into(), &request.model);
                let fault = place.explain(Fault::new(FaultClass::Invalid, error.to_string()));
                return Box::pin(stream::iter([Err(fault)]));
            }
        };
        let place = self.place(endpoint.origin(), &request.model);
        let (url, headers) = (endpoint.url(&request.model), endpoint.headers());
        let known = self.catalogue.find(D::PROVIDER, &request.model);
        let answer_max = known.and_then(Row::answer_max).unwrap_or(ANSWER_MAX);
        let body = endpoint.dialect.encode(&request, answer_max);
        let (http, decoder) = (self.http.clone(), Decoder::<D>::new(self.limits));
        let answer = async move {
            match http.post(url, headers, body).await {
                Ok(body) => Reading { body: Some(body), decoder, place }.deltas().left_stream(),
                Err(fault) => stream::iter([Err(place.explain(fault))]).right_stream(),
            }
        };
        Box::pin(answer.flatten_stream())
    }

    fn abilities(&self, model: &str) -> Abilities {
        let abilities = Abilities { takes_changes: D::TAKES_CHANGES, ..Abilities::default() };
        match self.catalogue.find(D::PROVIDER, model) {
            Some(row) => row.add_to(abilities),
            None => abilities,
        }
    }
}

/// An answer being read.
struct Reading<D: Dialect> {
    /// None when the answer has ended: dropping it closes the connection or frees it for the next request.
    body: Option<Body>,
    decoder: Decoder<D>,
    place: Place,
}

impl<D: Dialect> Reading<D> {
    fn deltas(self) -> impl futures_util::Stream<Item = Result<Delta, Fault>> + Send {
        stream::unfold(self, |mut reading| async move {
            let delta = reading.next().await?;
            Some((delta, reading))
        })
    }

    async fn next(&mut self) -> Option<Result<Delta, Fault>> {
        loop {
            if let Some(delta) = self.decoder.pop() {
                let request = self.body.as_ref().and_then(|body| body.request.clone());
                return Some(delta.map_err(|fault| {
                    let request = fault.request.clone().or(request);
                    self.place.explain(Fault { request, ..fault })
                }));
            }
            if self.decoder.is_over() {
                self.body = None;
            }
            match self.body.as_mut()?.next().await {
                Ok(Some(bytes)) => self.decoder.push(bytes.as_ref()),
                Ok(None) => self.decoder.finish(),
                Err(fault) => self.decoder.break_off(fault),
            }
        }
    }
}

/// What was asked of whom, for the messages of faults.
struct Place {
    origin: String,
    model: String,
    /// The variable of the key.
    key: &'static str,
    secrets: Arc<[SecretString]>,
}

impl Place {
    /// The fault, with what was attempted in front and what to do behind, and without any key.
    fn explain(&self, fault: Fault) -> Fault {
        let Self { origin, model, key, .. } = self;
        let mut message = format!("ask {origin} for {model}: {}{}", fault.message, advice(&fault, key));
        for secret in self.secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty())
        {
            // A server may quote the key that it does not like.
            message = message.replace(secret.trim(), "[key]");
        }
        Fault { message, ..fault }
    }
}

fn advice(fault: &Fault, key: &str) -> String {
    let advice = match (fault.class, fault.status) {
        (FaultClass::Auth, _) => return format!("; set {key} to a key of this endpoint"),
        (FaultClass::Quota, _) => "; add credit or raise the limit of the account",
        (FaultClass::Invalid, Some(404)) => {
            "; check the name of the model, and the base URL (it usually ends in /v1)"
        }
        _ => "",
    };
    advice.to_owned()
}
