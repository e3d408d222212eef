//! Where requests go, and with which key.

use everturn_core::{Error, Result};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};

use crate::dialect::Dialect;

/// One place that takes requests.
#[derive(Clone)]
pub(super) struct Endpoint<D> {
    /// What the paths of requests stand behind.
    pub(super) base: Url,
    /// What the key's header says there.
    key: Option<HeaderValue>,
    pub(super) dialect: D,
}

impl<D: Dialect> Endpoint<D> {
    /// The endpoint under a base URL.
    ///
    /// Errors: `Invalid` for a text that is no such URL, or a key that cannot stand in a header.
    pub(super) fn new(base_url: &str, key: Option<&SecretString>) -> Result<Self> {
        let mut base = Url::parse(base_url.trim())
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                Error::invalid("read a base URL: it has the form http://HOST:PORT/v1 or https://HOST/v1")
            })?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(Error::invalid(format!(
                "read a base URL at {}: it holds a user or password; take them out and set {}",
                base.origin().ascii_serialization(),
                D::KEY
            )));
        }
        base.path_segments_mut().expect("a URL with a host has a path").pop_if_empty();
        Ok(Self {
            dialect: D::of_host(base.host_str().unwrap_or_default()),
            key: key.map(authorization::<D>).transpose()?.flatten(),
            base,
        })
    }

    /// The whole URL of a request.
    pub(super) fn url(&self, model: &str) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut().expect("a URL with a host has a path").extend(D::path(model));
        url.set_query(D::QUERY);
        url
    }

    /// The headers of a request, the key's among them.
    pub(super) fn headers(&self) -> HeaderMap {
        let named = |name: &'static str| HeaderName::from_static(name);
        let fixed = D::HEADERS.iter().map(|(name, value)| (named(name), HeaderValue::from_static(value)));
        let key = self.key.iter().map(|key| (named(D::AUTHORIZATION.0), key.clone()));
        fixed.chain(key).collect()
    }

    /// Scheme, host and port, as messages show them.
    pub(super) fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }
}

/// What the header of a key says; none for an empty one.
fn authorization<D: Dialect>(key: &SecretString) -> Result<Option<HeaderValue>> {
    let key = key.expose_secret().trim();
    if key.is_empty() {
        return Ok(None);
    }
    let (_, before) = D::AUTHORIZATION;
    let mut value = HeaderValue::try_from(format!("{before}{key}")).map_err(|_| {
        Error::invalid("read a key: it holds characters that no HTTP header may have; copy it again")
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}
