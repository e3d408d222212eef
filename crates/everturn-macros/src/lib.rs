//! Derive macros of Everturn. The crates that a macro is for re-export it and say what it does: see
//! `everturn::document::Document`.

use proc_macro::TokenStream;

mod document;

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
