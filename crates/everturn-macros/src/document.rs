//! `#[derive(Document)]`: from the attribute's words to an implementation of the trait.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Ident, LitInt, LitStr, Path, Result, meta::ParseNestedMeta, spanned::Spanned};

#[cfg(test)]
mod tests;

const KEYS: &str = "kind, version, scope, history, fork, migrate, crate";
const KIND_MAX: usize = 256;

/// The implementation for one type.
pub(crate) fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let words = Words::of(&input)?;
    words.check()?;
    Ok(words.implementation(&input))
}

/// What the attributes of one type say.
struct Words {
    kind: LitStr,
    version: u32,
    scope: Choice,
    history: Choice,
    fork: Choice,
    migrate: Option<Path>,
    home: Path,
}

/// One of the allowed words, and where it stands when it was given.
struct Choice {
    word: &'static str,
    given: Option<LitStr>,
}

impl Words {
    fn of(input: &DeriveInput) -> Result<Self> {
        let mut found = Found::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("document")) {
            attribute.parse_nested_meta(|meta| found.take(&meta))?;
        }
        let kind = found.kind.ok_or_else(|| {
            syn::Error::new(
                input.ident.span(),
                "a document has a kind: #[document(kind = \"example.notes\")]",
            )
        })?;
        Ok(Self {
            kind,
            version: found.version.unwrap_or(1),
            scope: Choice::of("scope", found.scope, &["session", "conversation", "task"])?,
            history: Choice::of("history", found.history, &["latest", "rewindable"])?,
            fork: Choice::of("fork", found.fork, &["initial", "current", "as_of"])?,
            migrate: found.migrate,
            home: found.home.unwrap_or_else(|| syn::parse_quote!(::everturn)),
        })
    }

    /// Refuses what does not go together.
    fn check(&self) -> Result<()> {
        let bytes = self.kind.value().len();
        if bytes == 0 || bytes > KIND_MAX {
            let message = format!("a kind has 1 to {KIND_MAX} bytes, this one has {bytes}");
            return Err(syn::Error::new(self.kind.span(), message));
        }
        let in_conversation = self.scope.word == "conversation";
        if self.history.word == "rewindable" && !in_conversation {
            return self.history.refuse("history `rewindable` needs scope = \"conversation\"");
        }
        if self.fork.given.is_some() && !in_conversation {
            return self.fork.refuse("only documents with scope = \"conversation\" are forked");
        }
        if self.fork.word == "as_of" && self.history.word != "rewindable" {
            return self.fork.refuse("fork `as_of` needs history = \"rewindable\"");
        }
        Ok(())
    }

    fn implementation(&self, input: &DeriveInput) -> TokenStream {
        let Self { kind, version, home, .. } = self;
        let name = &input.ident;
        let (history, fork) = (self.history.variant(), self.fork.variant());
        let scope = match self.scope.word {
            "conversation" => quote!(#home::id::ConversationId),
            "task" => quote!(#home::id::TaskId),
            _ => quote!(()),
        };
        let migrate = self.migrate.as_ref().map(|migrate| {
            quote! {
                fn migrate(value: #home::document::Value, from: u32) -> #home::Result<#home::document::Value> {
                    #migrate(value, from)
                }
            }
        });
        let (generics, arguments, bounds) = input.generics.split_for_impl();
        quote! {
            #[automatically_derived]
            impl #generics #home::document::Document for #name #arguments #bounds {
                const KIND: &'static str = #kind;
                const VERSION: u32 = #version;
                const HISTORY: #home::document::History = #home::document::History::#history;
                const FORK: #home::document::ForkPolicy = #home::document::ForkPolicy::#fork;
                type Scope = #scope;
                #migrate
            }
        }
    }
}

impl Choice {
    /// The word that was given, or the first of those allowed.
    fn of(key: &str, given: Option<LitStr>, allowed: &[&'static str]) -> Result<Self> {
        let Some(text) = &given else {
            return Ok(Self { word: allowed[0], given });
        };
        let value = text.value();
        match allowed.iter().find(|word| **word == value) {
            Some(word) => Ok(Self { word, given }),
            None => {
                let message = format!("unknown {key} `{value}`; allowed: {}", allowed.join(", "));
                Err(syn::Error::new(text.span(), message))
            }
        }
    }

    fn refuse(&self, message: &str) -> Result<()> {
        let span = self.given.as_ref().map_or_else(proc_macro2::Span::call_site, LitStr::span);
        Err(syn::Error::new(span, message))
    }

    /// The name of the enum's variant.
    fn variant(&self) -> Ident {
        format_ident!(
            "{}",
            match self.word {
                "latest" => "Latest",
                "rewindable" => "Rewindable",
                "current" => "Current",
                "as_of" => "AsOf",
                _ => "Initial",
            }
        )
    }
}

/// The keys met so far.
#[derive(Default)]
struct Found {
    kind: Option<LitStr>,
    version: Option<u32>,
    scope: Option<LitStr>,
    history: Option<LitStr>,
    fork: Option<LitStr>,
    migrate: Option<Path>,
    home: Option<Path>,
}

impl Found {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        let text = || meta.value()?.parse::<LitStr>();
        match key.as_str() {
            "kind" => once(meta, &mut self.kind, text()?),
            "version" => once(meta, &mut self.version, version(&meta.value()?.parse()?)?),
            "scope" => once(meta, &mut self.scope, text()?),
            "history" => once(meta, &mut self.history, text()?),
            "fork" => once(meta, &mut self.fork, text()?),
            "migrate" => once(meta, &mut self.migrate, meta.value()?.parse()?),
            "crate" => once(meta, &mut self.home, text()?.parse_with(Path::parse_mod_style)?),
            _ => {
                let found = &meta.path;
                Err(meta.error(format!("unknown key `{}`; allowed: {KEYS}", quote!(#found))))
            }
        }
    }
}

fn once<T>(meta: &ParseNestedMeta<'_>, place: &mut Option<T>, value: T) -> Result<()> {
    if place.replace(value).is_some() {
        let key = &meta.path;
        return Err(syn::Error::new(key.span(), format!("`{}` is given twice", quote!(#key))));
    }
    Ok(())
}

fn version(literal: &LitInt) -> Result<u32> {
    literal
        .base10_parse()
        .ok()
        .filter(|version| *version > 0)
        .ok_or_else(|| syn::Error::new(literal.span(), "a version is a number from 1 to 4294967295"))
}
