use proc_macro2::TokenStream;
use quote::quote;

use super::write;

/// The message of the error that the attribute's words lead to.
fn refused(words: &str) -> String {
    let words: TokenStream = words.parse().unwrap();
    let function = quote! {
        /// Counts.
        async fn count(n: u32) -> ToolResult {}
    };
    write(words, function).unwrap_err().to_string()
}

/// The message of the error that the function leads to.
fn refused_function(function: TokenStream) -> String {
    write(TokenStream::new(), function).unwrap_err().to_string()
}

/// What is written out as text, without white space.
fn written(words: TokenStream, function: TokenStream) -> String {
    write(words, function).unwrap().to_string().replace(char::is_whitespace, "")
}

#[test]
fn a_function_becomes_a_tool_of_its_name() {
    let text = written(
        quote!(),
        quote! {
            /// Count from 1 to n.
            pub async fn count_up(cx: &CallContext, n: u32) -> ToolResult { body }
        },
    );
    let expected = quote! {
        /// Count from 1 to n.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        pub struct count_up;

        #[doc = "What [`count_up`] is called with."]
        #[allow(missing_docs)]
        #[derive(::everturn::tool::written::serde::Deserialize, ::everturn::tool::written::schemars::JsonSchema)]
        #[serde(crate = "::everturn::tool::written::serde")]
        #[schemars(crate = "::everturn::tool::written::schemars")]
        pub struct CountUpArguments {
            pub n: u32,
        }

        impl ::everturn::tool::Tool for count_up {
            const NAME: &'static str = "count_up";
            type Arguments = CountUpArguments;

            fn description(&self) -> &str {
                "Count from 1 to n."
            }

            fn contract(&self) -> ::everturn::tool::Contract {
                ::everturn::tool::Contract { ..::std::default::Default::default() }
            }

            async fn run(
                &self,
                __cx: &::everturn::tool::CallContext,
                __arguments: CountUpArguments,
            ) -> ::everturn::tool::ToolResult {
                async fn count_up(cx: &CallContext, n: u32) -> ToolResult { body }
                let CountUpArguments { n } = __arguments;
                let _ = __cx;
                count_up(__cx, n).await
            }
        }
    };
    assert_eq!(text, expected.to_string().replace(char::is_whitespace, ""));
}

#[test]
fn each_word_finds_its_place() {
    let words = quote!(
        name = "count-up",
        replay = "safe",
        on_unknown = "pause",
        sequential,
        deadline_ms = 500,
        keep = "tail",
        acts = my::acts,
        crate = "my::home"
    );
    let function = quote! {
        /// Counts.
        async fn count(n: u32) -> ToolResult {}
    };
    let text = written(words, function);
    for part in [
        "impl my::home::tool::Tool for count",
        "NAME: &'static str = \"count-up\"",
        "replay: my::home::tool::Replay::Safe,",
        "on_unknown: my::home::tool::OnUnknown::Pause,",
        "is_sequential: true,",
        "deadline: ::std::option::Option::Some(::std::time::Duration::from_millis(500u64)),",
        "keep: my::home::tool::Keep::Tail,",
        "my::acts(arguments)",
    ] {
        assert!(text.contains(&part.replace(char::is_whitespace, "")), "{part} in {text}");
    }
    assert!(!text.contains("::everturn"), "{text}");
}

#[test]
fn what_stands_above_a_parameter_stands_above_its_field() {
    let text = written(
        quote!(),
        quote! {
            /// Counts.
            #[tracing::instrument]
            async fn r#loop(
                /// How far.
                #[serde(default)]
                mut n: u32,
                r#type: String,
            ) -> ToolResult {}
        },
    );
    let fields = r#"structLoopArguments{#[doc=r"Howfar."]#[serde(default)]n:u32,r#type:String,}"#;
    assert!(text.contains(fields), "{text}");
    assert!(text.contains("#[tracing::instrument]asyncfnr#loop(mutn:u32,r#type:String,)"), "{text}");
    assert!(text.contains(r#"NAME:&'staticstr="loop""#), "{text}");
}

#[test]
fn the_description_is_the_doc_comment_without_its_margin() {
    let text = write(
        quote!(),
        quote! {
            /// Counts.
            ///
            ///   - far
            async fn count() -> ToolResult {}
        },
    );
    assert!(text.unwrap().to_string().contains(r#""Counts.\n\n  - far""#));
    let message = refused_function(quote!(
        async fn count() -> ToolResult {}
    ));
    assert_eq!(message, "a tool is described to the model: write a doc comment above it");
}

#[test]
fn an_unknown_word_is_told_what_is_allowed() {
    assert_eq!(
        refused("nam = \"n\""),
        "unknown key `nam`; allowed: name, replay, on_unknown, sequential, deadline_ms, keep, acts, crate"
    );
    assert_eq!(refused("replay = \"often\""), "unknown replay `often`; allowed: safe, keyed, never");
    assert_eq!(refused("on_unknown = \"ask\""), "unknown on_unknown `ask`; allowed: tell, pause");
    assert_eq!(refused("keep = \"\""), "unknown keep ``; allowed: head, tail, both");
    assert_eq!(refused("deadline_ms = 0"), "a deadline is a number of milliseconds, from 1");
    assert_eq!(refused("name = \"n\", name = \"m\""), "`name` is given twice");
    for name in ["", "two words", "caf\u{e9}", &"n".repeat(65)] {
        let message = refused(&format!("name = {name:?}"));
        assert!(message.starts_with("a name of a tool has 1 to 64 ASCII letters"), "{message}");
    }
}

#[test]
fn what_cannot_be_a_tool_is_refused() {
    for (function, message) in [
        (
            quote!(
                fn count() -> ToolResult {}
            ),
            "a tool is an `async fn`",
        ),
        (
            quote!(
                async fn count<T>(n: T) -> ToolResult {}
            ),
            "a tool has no generics: a model knows no types",
        ),
        (
            quote!(
                async unsafe fn count() -> ToolResult {}
            ),
            "a tool is a plain `async fn`",
        ),
        (
            quote!(
                async fn count() {}
            ),
            "a tool returns `ToolResult`",
        ),
        (
            quote!(
                async fn count(&self) -> ToolResult {}
            ),
            "a tool is a function, not a method",
        ),
        (
            quote!(
                async fn count(n: &str) -> ToolResult {}
            ),
            "an argument is read from JSON and owned; only `&CallContext` is lent",
        ),
        (
            quote!(
                async fn count(n: impl Copy) -> ToolResult {}
            ),
            "an argument has a type that a model can be told",
        ),
        (
            quote!(
                async fn count((a, b): (u8, u8)) -> ToolResult {}
            ),
            "an argument has a name, by which the model gives it",
        ),
        (
            quote!(
                async fn count(a: &CallContext, b: &tool::CallContext) -> ToolResult {}
            ),
            "a call has one context",
        ),
    ] {
        let described = quote! {
            /// Counts.
            #function
        };
        assert_eq!(refused_function(described), message);
    }
}
