//! What the attribute says.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Ident, LitInt, LitStr, Path, Result, ext::IdentExt, meta::ParseNestedMeta, parse::Parser};

use super::refuse;

const KEYS: &str = "name, replay, on_unknown, sequential, deadline_ms, keep, acts, crate";

/// How long a name may be; providers take no longer one.
const NAME_MAX: usize = 64;

/// The keys of one attribute.
pub(super) struct Words {
    name: Option<LitStr>,
    replay: Option<Ident>,
    on_unknown: Option<Ident>,
    is_sequential: bool,
    deadline_ms: Option<u64>,
    keep: Option<Ident>,
    pub(super) acts: Option<Path>,
    /// Where Everturn is.
    pub(super) home: Path,
}

impl Words {
    pub(super) fn of(words: TokenStream) -> Result<Self> {
        let mut found = Self {
            name: None,
            replay: None,
            on_unknown: None,
            is_sequential: false,
            deadline_ms: None,
            keep: None,
            acts: None,
            home: syn::parse_quote!(::everturn),
        };
        let mut met = Vec::new();
        syn::meta::parser(|meta| found.take(&meta, &mut met)).parse2(words)?;
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, met: &mut Vec<String>) -> Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        if met.contains(&key) {
            return refuse(&meta.path, format!("`{key}` is given twice"));
        }
        let text = || meta.value()?.parse::<LitStr>();
        match key.as_str() {
            "name" => self.name = Some(text()?),
            "replay" => self.replay = Some(choice(&key, &text()?, &["safe", "keyed", "never"])?),
            "on_unknown" => self.on_unknown = Some(choice(&key, &text()?, &["tell", "pause"])?),
            "sequential" => self.is_sequential = true,
            "deadline_ms" => self.deadline_ms = Some(milliseconds(&meta.value()?.parse()?)?),
            "keep" => self.keep = Some(choice(&key, &text()?, &["head", "tail", "both"])?),
            "acts" => self.acts = Some(meta.value()?.parse()?),
            "crate" => self.home = text()?.parse_with(Path::parse_mod_style)?,
            _ => {
                let found = &meta.path;
                return Err(meta.error(format!("unknown key `{}`; allowed: {KEYS}", quote!(#found))));
            }
        }
        met.push(key);
        Ok(())
    }

    /// The name that was given, or that of the function.
    pub(super) fn name(&self, function: &Ident) -> Result<String> {
        let (name, span) = match &self.name {
            Some(given) => (given.value(), given.span()),
            None => (function.unraw().to_string(), function.span()),
        };
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_letter) {
            let message = format!(
                "a name of a tool has 1 to {NAME_MAX} ASCII letters, digits, `_` or `-`, not {name:?}"
            );
            return Err(syn::Error::new(span, message));
        }
        Ok(name)
    }

    pub(super) fn contract(&self) -> TokenStream {
        let home = &self.home;
        let replay = self.replay.iter();
        let on_unknown = self.on_unknown.iter();
        let is_sequential = self.is_sequential.then(|| quote!(is_sequential: true,));
        let deadline = self.deadline_ms.iter();
        let keep = self.keep.iter();
        quote! {
            #home::tool::Contract {
                #(replay: #home::tool::Replay::#replay,)*
                #(on_unknown: #home::tool::OnUnknown::#on_unknown,)*
                #is_sequential
                #(deadline: ::std::option::Option::Some(::std::time::Duration::from_millis(#deadline)),)*
                #(keep: #home::tool::Keep::#keep,)*
                ..::std::default::Default::default()
            }
        }
    }
}

/// The variant of an enum that a word names.
fn choice(key: &str, given: &LitStr, allowed: &[&str]) -> Result<Ident> {
    let word = given.value();
    if !allowed.contains(&word.as_str()) {
        return refuse(given, format!("unknown {key} `{word}`; allowed: {}", allowed.join(", ")));
    }
    let (first, rest) = word.split_at(1);
    Ok(format_ident!("{}{rest}", first.to_uppercase()))
}

fn milliseconds(literal: &LitInt) -> Result<u64> {
    let number = literal.base10_parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| syn::Error::new(literal.span(), "a deadline is a number of milliseconds, from 1"))
}
