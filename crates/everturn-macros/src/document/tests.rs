use quote::quote;

use super::derive;

/// The message of the error that the attribute's words lead to.
fn refused(words: &str) -> String {
    let words: proc_macro2::TokenStream = words.parse().unwrap();
    derive(quote!(
        #[document(#words)]
        struct Notes {}
    ))
    .unwrap_err()
    .to_string()
}

/// The implementation as text, without white space.
fn derived(input: proc_macro2::TokenStream) -> String {
    derive(input).unwrap().to_string().replace(char::is_whitespace, "")
}

#[test]
fn defaults_are_version_1_of_the_session_without_history() {
    let text = derived(quote!(
        #[document(kind = "example.notes")]
        struct Notes {}
    ));
    let expected = quote! {
        #[automatically_derived]
        impl ::everturn::document::Document for Notes {
            const KIND: &'static str = "example.notes";
            const VERSION: u32 = 1u32;
            const HISTORY: ::everturn::document::History = ::everturn::document::History::Latest;
            const FORK: ::everturn::document::ForkPolicy = ::everturn::document::ForkPolicy::Initial;
            type Scope = ();
        }
    };
    assert_eq!(text, expected.to_string().replace(char::is_whitespace, ""));
}

#[test]
fn each_word_finds_its_place() {
    let text = derived(quote! {
        #[document(kind = "k", version = 3, scope = "conversation", history = "rewindable", fork = "as_of")]
        #[document(migrate = old::bring, crate = "my::home")]
        struct Notes<T: Clone>(T) where T: Copy;
    });
    for part in [
        "impl<T:Clone>my::home::document::DocumentforNotes<T>whereT:Copy",
        "VERSION:u32=3u32",
        "History::Rewindable",
        "ForkPolicy::AsOf",
        "typeScope=my::home::id::ConversationId",
        "old::bring(value,from)",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        derived(quote!(
            #[document(kind = "k", scope = "task")]
            struct A;
        ))
        .contains("id::TaskId")
    );
}

#[test]
fn a_document_needs_a_kind() {
    let expected = "a document has a kind: #[document(kind = \"example.notes\")]";
    assert_eq!(refused(""), expected);
    assert_eq!(
        derive(quote!(
            struct Notes;
        ))
        .unwrap_err()
        .to_string(),
        expected
    );
    assert_eq!(refused("kind = \"\""), "a kind has 1 to 256 bytes, this one has 0");
    assert_eq!(
        refused(&format!("kind = \"{}\"", "é".repeat(129))),
        "a kind has 1 to 256 bytes, this one has 258"
    );
}

#[test]
fn an_unknown_word_is_told_what_is_allowed() {
    assert_eq!(
        refused("kind = \"k\", name = \"n\""),
        "unknown key `name`; allowed: kind, version, scope, history, fork, migrate, crate"
    );
    assert_eq!(
        refused("kind = \"k\", scope = \"user\""),
        "unknown scope `user`; allowed: session, conversation, task"
    );
    assert_eq!(
        refused("kind = \"k\", history = \"all\""),
        "unknown history `all`; allowed: latest, rewindable"
    );
    assert_eq!(
        refused("kind = \"k\", fork = \"copy\""),
        "unknown fork `copy`; allowed: initial, current, as_of"
    );
    for version in ["0", "4294967296"] {
        let message = refused(&format!("kind = \"k\", version = {version}"));
        assert_eq!(message, "a version is a number from 1 to 4294967295");
    }
    assert_eq!(refused("kind = \"k\", kind = \"l\""), "`kind` is given twice");
}

#[test]
fn words_that_do_not_go_together_are_refused() {
    let rewindable = "history `rewindable` needs scope = \"conversation\"";
    assert_eq!(refused("kind = \"k\", history = \"rewindable\""), rewindable);
    assert_eq!(refused("kind = \"k\", scope = \"task\", history = \"rewindable\""), rewindable);
    assert_eq!(
        refused("kind = \"k\", fork = \"initial\""),
        "only documents with scope = \"conversation\" are forked"
    );
    assert_eq!(
        refused("kind = \"k\", scope = \"conversation\", fork = \"as_of\""),
        "fork `as_of` needs history = \"rewindable\""
    );
}
