//! Chat Completions at any base URL: OpenRouter, vLLM, llama.cpp, Ollama, LM Studio, Groq, Mistral and others.

mod calls;
mod decode;
mod encode;
mod quirks;
mod wire;

use everturn_core::model::Request;

pub use self::{encode::encode, quirks::Quirks};
use crate::{client::Client, decoder, dialect::Dialect};

/// The provider's name in model references and origins.
pub const PROVIDER: &str = "chat";

/// The models behind a Chat Completions endpoint.
pub type Chat = Client<Quirks>;

/// Reads an answer of Chat Completions.
///
/// Promise: beside that of every [decoder](decoder::Decoder), only a call whose arguments are complete JSON when the
/// finish reason was seen gets its end; an answer that ended well after a call began stops for calls, whatever word the
/// server used.
/// Source: OpenAI, "Chat Completions API", and what compatible servers were seen to send.
pub type Decoder = decoder::Decoder<Quirks>;

impl Dialect for Quirks {
    const PROVIDER: &'static str = PROVIDER;
    const KEY: &'static str = "EVERTURN_CHAT_API_KEY";
    const AUTHORIZATION: (&'static str, &'static str) = ("authorization", "Bearer ");
    type Answer = decode::Answer;

    fn of_host(host: &str) -> Self {
        Self::of_host(host)
    }

    fn path(_: &str) -> Vec<String> {
        ["chat", "completions"].map(str::to_owned).to_vec()
    }

    fn encode(&self, request: &Request, _: u64) -> Vec<u8> {
        encode(request, *self)
    }
}
