//! The macros of Everturn. The crates that a macro is for re-export it and say what it does: see
//! `everturn::document::Document` and `everturn::tool::Tool`.

use proc_macro::TokenStream;

mod document;
mod tool;

/// Makes a type a document: state that is committed beside entries.
///
/// ```text
/// #[derive(Document, Serialize, Deserialize, Default)]
/// #[document(kind = "example.notes", version = 1, scope = "conversation", history = "rewindable", fork = "as_of")]
/// struct Notes { text: String }
/// ```
///
/// | key | is | without it |
/// | --- | --- | --- |
/// | `kind` | the name of the kind, 1 to 256 bytes | an error |
/// | `version` | the version of the stored form, from 1 | `1` |
/// | `scope` | `"session"`, `"conversation"` or `"task"` | `"session"` |
/// | `history` | `"latest"` or `"rewindable"` (conversation scope only) | `"latest"` |
/// | `fork` | `"initial"`, `"current"` or `"as_of"` (conversation scope only; `as_of` needs `rewindable`) | `"initial"` |
/// | `migrate` | a function `fn(Value, u32) -> Result<Value>` for values of older versions | older values are refused |
/// | `crate` | the path of the crate with the module `document` | `"::everturn"` |
#[proc_macro_derive(Document, attributes(document))]
pub fn derive_document(input: TokenStream) -> TokenStream {
    document::derive(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an `async fn` a tool: a value of the function's name that implements the trait `Tool`.
///
/// ```text
/// #[tool(name = "count", replay = "safe")]
/// /// Count from 1 to n.
/// async fn count(
///     cx: &CallContext,
///     /// How far to count.
///     n: u32,
/// ) -> ToolResult { .. }
///
/// Extension::new("numbers").tool(count)
/// ```
///
/// The doc comment is what the model is told; a doc comment on a parameter tells it of that argument. Other attributes
/// of a parameter (`serde`, `schemars`) go along. A parameter of type `&CallContext` is the call's context; it may be
/// left out. The arguments become a type of their own: `count` is called with a `CountArguments`. The function's name is
/// that of a value from then on, so no variable beside it can have it.
///
/// | key | is | without it |
/// | --- | --- | --- |
/// | `name` | what a model calls it by | the function's name |
/// | `replay` | `"safe"`, `"keyed"` or `"never"`: whether it may run again | `"never"` |
/// | `on_unknown` | `"tell"` or `"pause"`: what happens when nobody knows whether it ran | `"tell"` |
/// | `sequential` | (alone) calls beside it run one after the other | they run at once |
/// | `deadline_ms` | how long a call may run | no deadline |
/// | `keep` | `"head"`, `"tail"` or `"both"`: what of too long an output is kept | `"head"` |
/// | `acts` | a function `fn(&CountArguments) -> Vec<Act>`: what a call does to the world | it is judged by its name |
/// | `crate` | the path of the crate with the module `tool` | `"::everturn"` |
#[proc_macro_attribute]
pub fn tool(words: TokenStream, function: TokenStream) -> TokenStream {
    tool::write(words.into(), function.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
