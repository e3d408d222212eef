//! Anthropic's Messages, and servers that speak it: thinking with signatures, cache marks, changes of the system prompt
//! in mid-conversation.

mod decode;
mod encode;
mod wire;

use everturn_core::model::Request;

pub use self::encode::encode;
use crate::{client::Client, decoder, dialect::Dialect};

/// The provider's name in model references and origins.
pub const PROVIDER: &str = "anthropic";

/// Where Anthropic's own models are.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";

/// The models behind a Messages endpoint.
pub type Anthropic = Client<Messages>;

/// Reads an answer of Messages.
///
/// Promise: beside that of every [decoder](decoder::Decoder), only a call whose block was seen to stop gets its end.
/// Signed and redacted thinking is kept as a whole block, in its place.
/// Source: the types of Anthropic's own client, and what compatible servers were seen to send.
pub type Decoder = decoder::Decoder<Messages>;

/// The dialect; all servers take the same.
///
/// ```
/// assert_eq!(everturn_models::anthropic::Messages, Default::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages;

impl Dialect for Messages {
    const PROVIDER: &'static str = PROVIDER;
    const KEY: &'static str = "ANTHROPIC_API_KEY";
    const AUTHORIZATION: (&'static str, &'static str) = ("x-api-key", "");
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];
    /// Older models refuse instructions between the messages.
    const TAKES_CHANGES: bool = false;
    type Answer = decode::Answer;

    fn of_host(_: &str) -> Self {
        Self
    }

    fn path(_: &str) -> Vec<String> {
        vec!["messages".to_owned()]
    }

    fn encode(&self, request: &Request, answer_max: u64) -> Vec<u8> {
        encode(request, answer_max)
    }
}
