//! Where requests go, and with which key.

use everturn_core::{Error, Result};
use reqwest::{Url, header::HeaderValue};
use secrecy::{ExposeSecret, SecretString};

/// What a server takes and what not.
///
/// ```
/// use everturn_models::chat::Quirks;
/// assert!(Quirks::default().include_usage);
/// assert!(!Quirks::of_host("api.mistral.ai").include_usage);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Whether it takes `stream_options.include_usage`.
    pub include_usage: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self { include_usage: true }
    }
}

/// Hosts that are not like the others.
const HOSTS: &[(&str, Quirks)] = &[
    // Answers `stream_options` with status 422, and reports usage unasked (cline/cline #582, TabbyML/tabby PR 4082).
    ("api.mistral.ai", Quirks { include_usage: false }),
];

impl Quirks {
    /// What is known of a host.
    pub fn of_host(host: &str) -> Self {
        let row = HOSTS.iter().find(|(name, _)| *name == host);
        row.map_or_else(Self::default, |(_, quirks)| *quirks)
    }
}

/// One place that takes requests.
#[derive(Clone)]
pub(super) struct Endpoint {
    /// The whole URL of a request.
    pub(super) url: Url,
    /// The `Authorization` for there.
    pub(super) key: Option<HeaderValue>,
    pub(super) quirks: Quirks,
}

impl Endpoint {
    /// The endpoint under a base URL.
    ///
    /// Errors: `Invalid` for a text that is no such URL, or a key that cannot stand in a header.
    pub(super) fn new(base_url: &str, key: Option<&SecretString>) -> Result<Self> {
        let mut url = Url::parse(base_url.trim())
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                Error::invalid("read a base URL: it has the form http://HOST:PORT/v1 or https://HOST/v1")
            })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::invalid(format!(
                "read a base URL at {}: it holds a user or password; take them out and set EVERTURN_CHAT_API_KEY",
                url.origin().ascii_serialization()
            )));
        }
        url.path_segments_mut()
            .expect("a URL with a host has a path")
            .pop_if_empty()
            .extend(["chat", "completions"]);
        Ok(Self {
            quirks: Quirks::of_host(url.host_str().unwrap_or_default()),
            key: key.map(authorization).transpose()?.flatten(),
            url,
        })
    }

    /// Scheme, host and port, as messages show them.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// The header for a key; none for an empty one.
fn authorization(key: &SecretString) -> Result<Option<HeaderValue>> {
    let key = key.expose_secret().trim();
    if key.is_empty() {
        return Ok(None);
    }
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
        Error::invalid("read a key: it holds characters that no HTTP header may have; copy it again")
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}
