//! What one provider's client has of its own: where it asks, how it writes a request, how it reads an answer.

use std::fmt;

use everturn_core::model::{Fault, Request};

use crate::{decoder::Out, sse::Event};

/// What a provider speaks. A value of it holds what is known of one server.
pub trait Dialect: Clone + fmt::Debug + Send + Sync + 'static {
    /// The provider's name in model references and origins.
    const PROVIDER: &'static str;
    /// The variable that usually holds its key, as messages advise.
    const KEY: &'static str;
    /// The header that its key goes in, and what stands there before the key.
    const AUTHORIZATION: (&'static str, &'static str);
    /// Headers of each request.
    const HEADERS: &'static [(&'static str, &'static str)] = &[];
    /// What stands behind the `?` of its address.
    const QUERY: Option<&'static str> = None;
    /// Whether its models take a change of their system prompt behind the messages.
    const TAKES_CHANGES: bool = true;
    /// How it reads an answer.
    type Answer: Answer;

    /// What is known of a server by the name of its host.
    fn of_host(host: &str) -> Self;

    /// The segments of the path behind the base URL.
    fn path(model: &str) -> Vec<String>;

    /// The body of a request; an answer may have so many tokens, where a dialect has to say it.
    fn encode(&self, request: &Request, answer_max: u64) -> Vec<u8>;
}

/// What was read of an answer.
pub trait Answer: Default + fmt::Debug + Send + 'static {
    /// Takes the data of an event.
    ///
    /// Errors: where the data is not what this dialect says.
    fn take(&mut self, event: &Event<'_>, json: &str, out: &mut Out) -> serde_json::Result<()>;

    /// Takes the end of the body: it fails with `unfinished` where the answer had not ended.
    fn end(&mut self, unfinished: Fault, out: &mut Out) {
        let _ = self;
        out.fail(unfinished);
    }
}
