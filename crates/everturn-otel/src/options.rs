//! Where telemetry goes, and as whose.

#[cfg(test)]
mod tests;

use std::time::Duration;

use everturn_core::{Error, Result};
use percent_encoding::percent_decode_str;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};

/// Where telemetry goes, and as whose.
///
/// ```
/// use everturn_otel::Options;
///
/// let options = Options {
///     headers: vec![("x-api-key".into(), "a-key".to_owned().into())],
///     ..Options::new("https://collector.example:4318")
/// };
/// assert!(!format!("{options:?}").contains("a-key"));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The base URL of the collector; `/v1/traces` and `/v1/metrics` are put behind it.
    pub endpoint: String,
    /// What is sent with everything, such as a key. Never shown.
    pub headers: Vec<(String, SecretString)>,
    /// Which service reports.
    pub service: String,
    /// What else says who reports, such as `service.instance.id`: without it the metrics of two processes look like one's.
    pub attributes: Vec<(String, String)>,
    /// How long one delivery may take, and how long [`shutdown`](crate::Telemetry::shutdown) waits.
    pub timeout: Duration,
    /// How often metrics are reported.
    pub every: Duration,
}

impl Options {
    /// The usual for a collector: service `everturn`, ten seconds for a delivery, metrics once a minute.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            service: "everturn".into(),
            attributes: Vec::new(),
            timeout: Duration::from_secs(10),
            every: Duration::from_secs(60),
        }
    }

    /// What OpenTelemetry's variables say, which `read` looks up; nothing where no endpoint is named.
    ///
    /// Shape: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES` (`name=value`, parted
    /// by commas, values percent-encoded), `OTEL_EXPORTER_OTLP_TIMEOUT` and `OTEL_METRIC_EXPORT_INTERVAL` (in
    /// milliseconds), `OTEL_SERVICE_NAME`.
    /// Errors: `Invalid` where one cannot be read; what is in a header is not quoted.
    ///
    /// ```
    /// # fn main() -> everturn_core::Result<()> {
    /// use everturn_otel::Options;
    ///
    /// let read = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:4318".to_owned());
    /// assert_eq!(Options::from_variables(read)?.unwrap().service, "everturn");
    /// assert!(Options::from_variables(|_| None)?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn from_variables(read: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let Some(endpoint) = read("OTEL_EXPORTER_OTLP_ENDPOINT") else { return Ok(None) };
        let mut options = Self::new(endpoint);
        let headers = pairs(&read, "OTEL_EXPORTER_OTLP_HEADERS")?;
        options.headers = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
        options.attributes = pairs(&read, "OTEL_RESOURCE_ATTRIBUTES")?;
        options.service = read("OTEL_SERVICE_NAME").unwrap_or(options.service);
        options.timeout = millis(&read, "OTEL_EXPORTER_OTLP_TIMEOUT")?.unwrap_or(options.timeout);
        options.every = millis(&read, "OTEL_METRIC_EXPORT_INTERVAL")?.unwrap_or(options.every);
        Ok(Some(options))
    }

    /// Where a kind of telemetry goes.
    pub(crate) fn url(&self, path: &str) -> Result<Url> {
        let wrong = |why: &str| Error::invalid(format!("export telemetry to an endpoint: {why}"));
        let base = Url::parse(&self.endpoint).map_err(|fault| wrong(&fault.to_string()))?;
        if !["http", "https"].contains(&base.scheme()) {
            return Err(wrong("it is neither http nor https; a collector takes OTLP over HTTP at port 4318"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("it holds a name or a password, and addresses are shown; use a header"));
        }
        let mut url = base.clone();
        url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
        Ok(url)
    }

    /// The headers, as they are sent.
    pub(crate) fn header_map(&self) -> Result<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = |what: &str| Error::invalid(format!("export telemetry with header {name:?}: {what}"));
            let header = HeaderName::try_from(name).map_err(|_| wrong("that is no name of a header"))?;
            let mut value = HeaderValue::try_from(value.expose_secret())
                .map_err(|_| wrong("its value has characters that no header can have"))?;
            value.set_sensitive(true);
            map.insert(header, value);
        }
        Ok(map)
    }
}

/// A variable that holds names and values.
fn pairs(read: &impl Fn(&str) -> Option<String>, variable: &str) -> Result<Vec<(String, String)>> {
    let text = read(variable).unwrap_or_default();
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty()).enumerate();
    let pair = |(at, pair): (usize, &str)| {
        let wrong = || Error::invalid(format!("read {variable}: pair {} is not `name=value`", at + 1));
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
        Ok((name.trim().to_owned(), value.into_owned()))
    };
    pairs.map(pair).collect()
}

fn millis(read: &impl Fn(&str) -> Option<String>, variable: &str) -> Result<Option<Duration>> {
    let wrong =
        |text: &str| Error::invalid(format!("read {variable}: {text:?} is no number of milliseconds"));
    let parsed = |text: String| match text.trim().parse() {
        Ok(ms @ 1..) => Ok(Duration::from_millis(ms)),
        _ => Err(wrong(&text)),
    };
    read(variable).map(parsed).transpose()
}
