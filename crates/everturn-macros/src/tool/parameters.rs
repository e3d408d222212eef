//! What the function takes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{FnArg, Ident, ItemFn, Pat, PatType, Result, Type, Visibility};

use super::refuse;

/// The parameters of a function, in their order.
pub(super) struct Parameters(Vec<Parameter>);

enum Parameter {
    /// What a running call may use.
    Context,
    /// What the model says.
    Argument { name: Ident, parameter: PatType },
}

impl Parameters {
    pub(super) fn of(function: &ItemFn) -> Result<Self> {
        let mut parameters: Vec<Parameter> = Vec::new();
        for input in &function.sig.inputs {
            let parameter = Parameter::of(input)?;
            let is_context = |parameter: &Parameter| matches!(parameter, Parameter::Context);
            if is_context(&parameter) && parameters.iter().any(is_context) {
                return refuse(input, "a call has one context");
            }
            parameters.push(parameter);
        }
        Ok(Self(parameters))
    }

    fn arguments(&self) -> impl Iterator<Item = (&Ident, &PatType)> {
        self.0.iter().filter_map(|parameter| match parameter {
            Parameter::Argument { name, parameter } => Some((name, parameter)),
            Parameter::Context => None,
        })
    }

    /// The fields of the arguments: what stands above a parameter stands above its field.
    pub(super) fn fields(&self, visibility: &Visibility) -> TokenStream {
        let fields = self.arguments().map(|(name, PatType { attrs, ty, .. })| {
            quote! {
                #(#attrs)*
                #visibility #name: #ty,
            }
        });
        quote!(#(#fields)*)
    }

    /// The names of the arguments.
    pub(super) fn names(&self) -> Vec<&Ident> {
        self.arguments().map(|(name, _)| name).collect()
    }

    /// What the function is called with.
    pub(super) fn passed(&self) -> Vec<TokenStream> {
        let passed = self.0.iter().map(|parameter| match parameter {
            Parameter::Context => quote!(__cx),
            Parameter::Argument { name, .. } => quote!(#name),
        });
        passed.collect()
    }
}

impl Parameter {
    fn of(input: &FnArg) -> Result<Self> {
        let FnArg::Typed(parameter) = input else {
            return refuse(input, "a tool is a function, not a method");
        };
        match &*parameter.ty {
            Type::Reference(reference) if is_context(&reference.elem) => {
                return Ok(Self::Context);
            }
            Type::Reference(reference) => {
                return refuse(
                    reference,
                    "an argument is read from JSON and owned; only `&CallContext` is lent",
                );
            }
            Type::ImplTrait(kind) => return refuse(kind, "an argument has a type that a model can be told"),
            _ => {}
        }
        match &*parameter.pat {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
                Ok(Self::Argument { name: pattern.ident.clone(), parameter: parameter.clone() })
            }
            pattern => refuse(pattern, "an argument has a name, by which the model gives it"),
        }
    }
}

fn is_context(kind: &Type) -> bool {
    match kind {
        Type::Path(kind) => kind.path.segments.last().is_some_and(|last| last.ident == "CallContext"),
        _ => false,
    }
}

/// The function without what stands above its parameters, which a function does not take.
pub(super) fn bare(function: &ItemFn) -> ItemFn {
    let mut function = function.clone();
    for input in &mut function.sig.inputs {
        if let FnArg::Typed(parameter) = input {
            parameter.attrs.clear();
        }
    }
    function
}
