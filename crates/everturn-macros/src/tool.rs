//! `#[tool]`: from a function to a tool of the same name.

mod parameters;
mod words;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, Expr, ExprLit, Ident, ItemFn, Lit, Meta, Result, ReturnType, Visibility, ext::IdentExt,
    spanned::Spanned,
};

use self::{
    parameters::{Parameters, bare},
    words::Words,
};

#[cfg(test)]
mod tests;

/// The tool that stands where the function stood.
pub(crate) fn write(words: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let words = Words::of(words)?;
    let function: ItemFn = syn::parse2(function)?;
    check(&function)?;
    let parameters = Parameters::of(&function)?;
    let (docs, attributes): (Vec<_>, Vec<_>) = function.attrs.iter().cloned().partition(is_doc);
    let description = description(&docs);
    if description.is_empty() {
        return refuse(&function.sig.ident, "a tool is described to the model: write a doc comment above it");
    }
    let name = words.name(&function.sig.ident)?;
    let written = Written { name, description, docs, words, parameters };
    Ok(written
        .tokens(&ItemFn { attrs: attributes, vis: Visibility::Inherited, ..bare(&function) }, &function.vis))
}

/// What is written out.
struct Written {
    name: String,
    description: String,
    docs: Vec<Attribute>,
    words: Words,
    parameters: Parameters,
}

impl Written {
    fn tokens(&self, function: &ItemFn, visibility: &Visibility) -> TokenStream {
        let tool = &function.sig.ident;
        let (home, docs) = (&self.words.home, &self.docs);
        let arguments = format_ident!("{}Arguments", camel(tool), span = tool.span());
        let structure = self.structure(tool, &arguments, visibility);
        let implementation = self.implementation(function, &arguments);
        quote! {
            #(#docs)*
            #[allow(non_camel_case_types)]
            #[derive(Clone, Copy, Debug)]
            #visibility struct #tool;

            #structure

            impl #home::tool::Tool for #tool {
                #implementation
            }
        }
    }

    /// The arguments as a type.
    fn structure(&self, tool: &Ident, arguments: &Ident, visibility: &Visibility) -> TokenStream {
        let home = &self.words.home;
        let fields = self.parameters.fields(visibility);
        let doc = format!("What [`{}`] is called with.", tool.unraw());
        let serde = path_text(&quote!(#home::tool::written::serde));
        let schemars = path_text(&quote!(#home::tool::written::schemars));
        quote! {
            #[doc = #doc]
            #[allow(missing_docs)]
            #[derive(#home::tool::written::serde::Deserialize, #home::tool::written::schemars::JsonSchema)]
            #[serde(crate = #serde)]
            #[schemars(crate = #schemars)]
            #visibility struct #arguments {
                #fields
            }
        }
    }

    fn implementation(&self, function: &ItemFn, arguments: &Ident) -> TokenStream {
        let (name, description, home) = (&self.name, &self.description, &self.words.home);
        let contract = self.words.contract();
        let acts = self.words.acts.as_ref().map(|acts| {
            quote! {
                fn acts(&self, arguments: &#arguments) -> ::std::vec::Vec<#home::policy::Act> {
                    #acts(arguments)
                }
            }
        });
        let (names, passed) = (self.parameters.names(), self.parameters.passed());
        let called = &function.sig.ident;
        quote! {
            const NAME: &'static str = #name;
            type Arguments = #arguments;

            fn description(&self) -> &str {
                #description
            }

            fn contract(&self) -> #home::tool::Contract {
                #contract
            }

            #acts

            async fn run(
                &self,
                __cx: &#home::tool::CallContext,
                __arguments: #arguments,
            ) -> #home::tool::ToolResult {
                #function
                let #arguments { #(#names),* } = __arguments;
                let _ = __cx;
                #called(#(#passed),*).await
            }
        }
    }
}

/// Refuses a function that cannot be a tool.
fn check(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return refuse(&signature.fn_token, "a tool is an `async fn`");
    }
    if !signature.generics.params.is_empty() {
        return refuse(&signature.generics, "a tool has no generics: a model knows no types");
    }
    if let Some(constness) = &signature.constness {
        return refuse(constness, "a tool is a plain `async fn`");
    }
    if let Some(unsafety) = &signature.unsafety {
        return refuse(unsafety, "a tool is a plain `async fn`");
    }
    if let ReturnType::Default = signature.output {
        return refuse(&signature.ident, "a tool returns `ToolResult`");
    }
    Ok(())
}

fn refuse<T>(at: &impl quote::ToTokens, message: impl std::fmt::Display) -> Result<T> {
    Err(syn::Error::new(at.span(), message))
}

fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
}

/// The text of doc comments, without the space that stands in front of each line.
fn description(docs: &[Attribute]) -> String {
    let lines = docs.iter().filter_map(|doc| match &doc.meta {
        Meta::NameValue(meta) => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<_> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n").trim().to_owned()
}

/// A name in snake case, as types are named.
fn camel(name: &Ident) -> String {
    let words = name.unraw().to_string();
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>())
    };
    words.split('_').filter_map(capital).collect()
}

/// A path as the text that other macros take.
fn path_text(path: &TokenStream) -> String {
    path.to_string().replace(char::is_whitespace, "")
}
