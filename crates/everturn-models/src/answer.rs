//! An HTTP answer that is no stream, and the fault that it is.

use std::time::{Duration, UNIX_EPOCH};

use everturn_core::{
    clock::Timestamp,
    model::{Fault, FaultClass},
};
use serde_json::Value;

/// A provider's answer that is no stream.
///
/// Promise: pure, so that each answer ever seen can be a test.
///
/// ```
/// use everturn_core::{clock::Timestamp, model::FaultClass};
/// use everturn_models::answer::Answer;
///
/// let answer = Answer {
///     status: 429,
///     headers: &[("Retry-After".into(), "1.5".into())],
///     body: br#"{"error":{"message":"slow down"}}"#,
///     now: Timestamp(0),
/// };
/// let fault = answer.fault();
/// assert_eq!((fault.class, fault.wait_ms), (FaultClass::RateLimited, Some(1500)));
/// assert_eq!(fault.message, "status 429: slow down");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The headers as received; their names have no case.
    pub headers: &'a [(String, String)],
    /// The body, or the start of it.
    pub body: &'a [u8],
    /// When it came, for waits that are given as a date.
    pub now: Timestamp,
}

impl Answer<'_> {
    /// The fault that this answer is.
    ///
    /// Shape: the wait is given only where the same request may be sent again, as the server says it.
    /// Source: what the providers' own clients obey: `x-should-retry`, then `retry-after-ms`, then `retry-after`, then
    /// `RetryInfo` in the body.
    pub fn fault(&self) -> Fault {
        let said = Said::of_body(self.body);
        let class = said.class(Some(self.status));
        let mut fault = Fault::new(class, format!("status {}: {}", self.status, said.message));
        fault.status = Some(self.status);
        fault.request = self.header("x-request-id").or(self.header("request-id")).map(str::to_owned);
        fault.retry = match self.header("x-should-retry") {
            Some("false") => Some(false),
            // No second try mends these, whatever a header says.
            Some("true")
                if !matches!(class, FaultClass::Quota | FaultClass::TooLong | FaultClass::Binding) =>
            {
                Some(true)
            }
            _ => None,
        };
        if fault.may_retry() {
            fault.wait_ms = self.wait_ms().or(said.wait_ms);
        }
        fault
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    fn wait_ms(&self) -> Option<u64> {
        let ms = self.header("retry-after-ms").and_then(|text| milliseconds(text, 1.0));
        ms.or_else(|| {
            let text = self.header("retry-after")?;
            milliseconds(text, 1000.0).or_else(|| self.until(text))
        })
    }

    /// The time until a date that is still to come.
    fn until(&self, date: &str) -> Option<u64> {
        let date = httpdate::parse_http_date(date).ok()?;
        let at = i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
        let wait = Timestamp(at).since(self.now);
        (wait > Duration::ZERO).then(|| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A number as milliseconds; what is no number above zero says nothing.
fn milliseconds(text: &str, unit: f64) -> Option<u64> {
    let ms = text.parse::<f64>().ok()? * unit;
    // The cast saturates, and a wait of that length is as good as any.
    (ms.is_finite() && ms > 0.0).then_some(ms.ceil() as u64)
}

/// The fault that an error inside a stream is; `error` is the JSON that the server sent for it.
pub(crate) fn stream_fault(error: &str) -> Fault {
    let said = Said::of_error(&serde_json::from_str(error).unwrap_or_default());
    let message = format!("the server broke off the answer: {}", said.message);
    let fault = Fault::new(said.class(None), message);
    Fault { wait_ms: said.wait_ms.filter(|_| fault.may_retry()), ..fault }
}

/// What a server says of a failure.
struct Said {
    /// For the person who reads it.
    message: String,
    /// Its codes and types.
    words: Vec<String>,
    /// A status that stands in the body.
    status: Option<u16>,
    /// A wait that stands in the body.
    wait_ms: Option<u64>,
}

/// Codes and types that tell the class, whatever the status.
const WORDS: &[(&str, FaultClass)] = &[
    ("insufficient_quota", FaultClass::Quota),
    ("billing_error", FaultClass::Quota),
    ("billing_hard_limit_reached", FaultClass::Quota),
    ("enforced_spend_limit_reached", FaultClass::Quota),
    ("context_length_exceeded", FaultClass::TooLong),
    ("exceed_context_size_error", FaultClass::TooLong),
    ("request_too_large", FaultClass::TooLong),
    ("server_is_overloaded", FaultClass::Overloaded),
    ("overloaded_error", FaultClass::Overloaded),
    ("UNAVAILABLE", FaultClass::Overloaded),
    ("slow_down", FaultClass::RateLimited),
];

/// Codes and types that tell the class where there is no status: inside a stream.
const STREAM_WORDS: &[(&str, FaultClass)] = &[
    ("rate_limit_error", FaultClass::RateLimited),
    ("rate_limit_exceeded", FaultClass::RateLimited),
    ("authentication_error", FaultClass::Auth),
    ("invalid_api_key", FaultClass::Auth),
    ("permission_error", FaultClass::Auth),
    ("invalid_request_error", FaultClass::Invalid),
];

/// What stands in the messages of wrong requests, in lower case, where only the message tells.
const PHRASES: &[(&str, FaultClass)] = &[
    ("bound to a different conversation", FaultClass::Binding),
    ("prompt is too long", FaultClass::TooLong),
    ("maximum context length", FaultClass::TooLong),
    ("available context size", FaultClass::TooLong),
    ("exceeds the context window", FaultClass::TooLong),
    ("exceeds the maximum number of tokens", FaultClass::TooLong),
];

impl Said {
    fn of_body(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Array(items)) if items.len() == 1 => Self::of_json(&items[0]),
            Ok(value) => Self::of_json(&value),
            Err(_) => Self::of_text(text.trim()),
        }
    }

    fn of_json(value: &Value) -> Self {
        Self::of_error(value.get("error").unwrap_or(value))
    }

    fn of_text(text: &str) -> Self {
        let message = match text {
            "" => "no word why".to_owned(),
            page if page.starts_with('<') => "a web page, as a proxy sends it".to_owned(),
            text => shorten(text),
        };
        Self { message, words: Vec::new(), status: None, wait_ms: None }
    }

    fn of_error(error: &Value) -> Self {
        let message = match error.get("message").or(error.get("detail")).unwrap_or(error) {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let code = error.get("code");
        let words = [code, error.get("type"), error.get("status"), error.pointer("/details/error_code")];
        Self {
            words: words.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            status: code.and_then(|code| match code {
                Value::String(text) => text.parse().ok(),
                code => code.as_u64().and_then(|code| u16::try_from(code).ok()),
            }),
            wait_ms: retry_info(error),
            ..Self::of_text(&message)
        }
    }

    fn class(&self, status: Option<u16>) -> FaultClass {
        let by_word = |table: &[(&str, FaultClass)]| {
            let row = table.iter().find(|(word, _)| self.words.iter().any(|said| said == word));
            row.map(|(_, class)| *class)
        };
        let message = self.message.to_lowercase();
        let by_phrase =
            || PHRASES.iter().find(|(phrase, _)| message.contains(phrase)).map(|(_, class)| *class);
        let by_stream_word = || status.is_none().then(|| by_word(STREAM_WORDS)).flatten();
        let status = status.or(self.status.filter(|status| *status >= 400));
        by_word(WORDS)
            .or_else(|| {
                status.is_none_or(|status| matches!(status, 400 | 413 | 422)).then(by_phrase).flatten()
            })
            .or_else(by_stream_word)
            .unwrap_or_else(|| class_of_status(status))
    }
}

/// The wait that a Gemini error asks for.
fn retry_info(error: &Value) -> Option<u64> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str()?.strip_suffix('s'))?;
    milliseconds(delay, 1000.0)
}

fn class_of_status(status: Option<u16>) -> FaultClass {
    match status {
        Some(401 | 403) => FaultClass::Auth,
        Some(402) => FaultClass::Quota,
        Some(413) => FaultClass::TooLong,
        Some(429) => FaultClass::RateLimited,
        Some(529) => FaultClass::Overloaded,
        Some(408 | 409 | 500..) => FaultClass::Transient,
        Some(_) => FaultClass::Invalid,
        // An answer that had begun is worth another try.
        None => FaultClass::Transient,
    }
}

/// The start of a text, on one line, without control characters.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 500;
    let mut words: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        words.push('…');
    }
    words
}
