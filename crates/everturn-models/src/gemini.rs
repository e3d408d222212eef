//! Google's Gemini by `streamGenerateContent`: signatures on their parts, calls without ids.

mod decode;
mod encode;
mod wire;

use everturn_core::model::Request;

pub use self::encode::encode;
use crate::{client::Client, decoder, dialect::Dialect};

/// The provider's name in model references and origins.
pub const PROVIDER: &str = "gemini";

/// Where Google's own models are.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// The models behind a Gemini endpoint.
pub type Gemini = Client<GenerateContent>;

/// Reads an answer of Gemini.
///
/// Promise: beside that of every [decoder](decoder::Decoder), a signed part is kept as it came, behind the text or the
/// call that it is.
/// Source: the types of Google's own client, and its page on thought signatures.
pub type Decoder = decoder::Decoder<GenerateContent>;

/// The dialect; all servers take the same.
///
/// ```
/// assert_eq!(everturn_models::gemini::GenerateContent, Default::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerateContent;

impl Dialect for GenerateContent {
    const PROVIDER: &'static str = PROVIDER;
    const KEY: &'static str = "GEMINI_API_KEY";
    const AUTHORIZATION: (&'static str, &'static str) = ("x-goog-api-key", "");
    /// Without it the answer is an array and no event stream.
    const QUERY: Option<&'static str> = Some("alt=sse");
    /// There is no place for instructions between the contents.
    const TAKES_CHANGES: bool = false;
    type Answer = decode::Answer;

    fn of_host(_: &str) -> Self {
        Self
    }

    fn path(model: &str) -> Vec<String> {
        vec!["models".to_owned(), format!("{model}:streamGenerateContent")]
    }

    fn encode(&self, request: &Request, _: u64) -> Vec<u8> {
        encode(request)
    }
}
