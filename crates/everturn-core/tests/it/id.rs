//! Ids and model references: what reads as one, and what it reads as.

use everturn_core::{
    ErrorKind,
    clock::{Entropy, Timestamp},
    id::{EntryId, SessionId},
    model::ModelRef,
};

/// Gives the same byte again and again.
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

#[test]
fn a_number_reads_as_an_id_and_nothing_else_does() {
    for (text, number) in [
        ("0", Some(0)),
        ("7", Some(7)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("-1", None),
        ("1.0", None),
        ("1e3", None),
        (" 7", None),
        ("", None),
        ("٧", None),
    ] {
        assert_eq!(text.parse::<EntryId>().ok(), number.map(EntryId), "{text:?}");
    }
    let error = "seven".parse::<EntryId>().unwrap_err();
    assert_eq!(error.to_string(), r#"read entry id "seven": not a number"#);
    assert_eq!(error.kind(), &ErrorKind::Invalid);
}

#[test]
fn a_session_id_reads_in_each_common_spelling_and_shows_in_one() {
    let id = "0198c0de-0000-7000-8000-0000000000aa";
    for (text, read) in [
        (id, true),
        ("0198C0DE-0000-7000-8000-0000000000AA", true),
        ("0198c0de0000700080000000000000aa", true),
        ("0198c0de", false),
        ("0198c0de-0000-7000-8000-0000000000ag", false),
        ("0198c0de-0000-7000-8000-0000000000aa ", false),
        ("", false),
    ] {
        let found = text.parse::<SessionId>().map(|id| id.to_string()).ok();
        assert_eq!(found.as_deref(), read.then_some(id), "{text:?}");
    }
    let stored = serde_json::to_string(&id.parse::<SessionId>().unwrap()).unwrap();
    assert_eq!(stored, format!("{id:?}"));
}

#[test]
fn session_ids_sort_by_the_time_they_were_made() {
    let make = |millis, byte| SessionId::new(Timestamp(millis), &Fixed(byte));
    assert!(make(1_790_000_000_000, 0xff) < make(1_790_000_000_001, 0));
    assert_eq!(make(1_790_000_000_000, 0xff).to_string(), "01a0c450-6c00-7fff-bfff-ffffffffffff");
    assert_eq!(make(-1, 0), make(0, 0), "a clock before the epoch is taken for the epoch");
}

#[test]
fn a_model_reference_reads_as_provider_model_and_endpoint() {
    for (text, expected) in [
        ("demo", Some(("demo", "demo", None))),
        ("chat/qwen", Some(("chat", "qwen", None))),
        ("chat/org/qwen:7b", Some(("chat", "org/qwen:7b", None))),
        ("chat/qwen@http://127.0.0.1:8080/v1", Some(("chat", "qwen", Some("http://127.0.0.1:8080/v1")))),
        ("chat/qwen@https://host.example/v1", Some(("chat", "qwen", Some("https://host.example/v1")))),
        ("chat/qwen@2026-11", Some(("chat", "qwen@2026-11", None))),
        ("demo@http://127.0.0.1:1", Some(("demo", "demo", Some("http://127.0.0.1:1")))),
        ("chat/@cf/meta/llama", Some(("chat", "@cf/meta/llama", None))),
        ("chat/a@b@http://user:word@host/v1", Some(("chat", "a@b", Some("http://user:word@host/v1")))),
        ("", None),
        ("/", None),
        ("/qwen", None),
        ("chat/", None),
        ("@http://127.0.0.1:1", None),
    ] {
        let expected = expected.map(|(provider, model, endpoint)| ModelRef {
            provider: provider.into(),
            model: model.into(),
            endpoint: endpoint.map(Into::into),
        });
        let found = text.parse::<ModelRef>();
        assert_eq!(found.as_ref().ok(), expected.as_ref(), "{text:?}");
        if let Ok(model) = found {
            assert_eq!(model.to_string(), text, "it shows as it was written");
            let stored = serde_json::to_string(&model).unwrap();
            assert_eq!(serde_json::from_str::<ModelRef>(&stored).unwrap(), model);
        }
    }
    let error = "chat/".parse::<ModelRef>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"read model "chat/": a model is named PROVIDER/MODEL or PROVIDER/MODEL@http://HOST/v1"#
    );
}

// An address without its scheme was taken for a part of the model's name, and what was asked went to OpenAI.
// Guards: what is meant for one's own server is never sent elsewhere.
#[test]
fn an_address_without_its_scheme_is_refused() {
    for (text, address) in [
        ("chat/qwen@127.0.0.1:8080/v1", "127.0.0.1:8080/v1"),
        ("chat/qwen@localhost:8080", "localhost:8080"),
        ("chat/qwen@localhost/v1", "localhost/v1"),
        ("chat/qwen@[::1]:8080/v1", "[::1]:8080/v1"),
        ("chat/qwen@ftp://host/v1", "ftp://host/v1"),
        ("chat/qwen@HTTP://host/v1", "HTTP://host/v1"),
    ] {
        let error = text.parse::<ModelRef>().unwrap_err();
        let expected = format!(
            "read model {text:?}: an address begins with http:// or https://, and {address:?} does not"
        );
        assert_eq!(error.to_string(), expected);
    }
}
