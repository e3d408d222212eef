//! OpenAI's Responses, and servers that speak it: stateless, with encrypted reasoning and phases.

mod decode;
mod encode;
mod items;
mod wire;

use everturn_core::model::Request;

pub use self::encode::encode;
use crate::{client::Client, decoder, dialect::Dialect};

/// The provider's name in model references and origins.
pub const PROVIDER: &str = "openai";

/// Where OpenAI's own models are.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// The models behind a Responses endpoint.
pub type OpenAi = Client<Responses>;

/// Reads an answer of Responses.
///
/// Promise: beside that of every [decoder](decoder::Decoder), only a call whose finished item was seen gets its end, with
/// the arguments of that item. Reasoning is kept as its finished item, where that is encrypted; the phase of a message
/// stands in front of its text.
/// Source: the types of OpenAI's own client, and what compatible servers were seen to send.
pub type Decoder = decoder::Decoder<Responses>;

/// The dialect, and what a server takes of it.
///
/// ```
/// use everturn_models::openai::Responses;
/// assert!(!Responses::default().is_openai);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Responses {
    /// Whether it is OpenAI's own, which takes what compatible servers may refuse: encrypted reasoning is asked for, and
    /// padding is asked to be left out.
    pub is_openai: bool,
}

impl Dialect for Responses {
    const PROVIDER: &'static str = PROVIDER;
    const KEY: &'static str = "OPENAI_API_KEY";
    const AUTHORIZATION: (&'static str, &'static str) = ("authorization", "Bearer ");
    type Answer = decode::Answer;

    fn of_host(host: &str) -> Self {
        Self { is_openai: host == "api.openai.com" }
    }

    fn path(_: &str) -> Vec<String> {
        vec!["responses".to_owned()]
    }

    fn encode(&self, request: &Request, _: u64) -> Vec<u8> {
        encode(request, *self)
    }
}
