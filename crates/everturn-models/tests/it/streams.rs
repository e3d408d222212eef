//! Every stream fixture of every dialect, cut in every way.

use std::{fs, path::Path};

use everturn_core::model::{Delta, Fault};
use everturn_models::sse::Limits;
use serde_json::{Value, json};

use crate::fold::Folded;

/// Decodes a body that comes in these pieces.
type Decode = fn(&[Vec<u8>]) -> Vec<Result<Delta, Fault>>;

/// How a dialect decodes.
macro_rules! decode {
    ($dialect:ident) => {
        |pieces| {
            let mut decoder = everturn_models::$dialect::Decoder::new(Limits::default());
            let mut deltas = Vec::new();
            for piece in pieces {
                decoder.push(piece);
                deltas.extend(std::iter::from_fn(|| decoder.pop()));
            }
            decoder.finish();
            deltas.extend(std::iter::from_fn(|| decoder.pop()));
            deltas
        }
    };
}

#[test]
fn every_chat_stream_gives_what_it_says_however_it_is_cut() {
    check("chat", 44, decode!(chat), |item| Some(item.clone()));
}

#[test]
fn every_anthropic_stream_gives_what_it_says_however_it_is_cut() {
    let kept = |item: &Value| item.get("signature").or(item.get("data")).cloned();
    check("anthropic", 38, decode!(anthropic), kept);
}

#[test]
fn every_responses_stream_gives_what_it_says_however_it_is_cut() {
    check("responses", 33, decode!(openai), |item| item.get("encrypted_content").cloned());
}

#[test]
fn every_gemini_stream_gives_what_it_says_however_it_is_cut() {
    check("gemini", 35, decode!(gemini), |item| item.get("thoughtSignature").cloned());
}

/// The ways in which a body may come.
fn ways(body: &str) -> Vec<(String, Vec<Vec<u8>>)> {
    let crlf = body.replace('\n', "\r\n");
    let between = crlf.split_inclusive('\r').map(|piece| piece.as_bytes().to_vec());
    let commented: String = body
        .split_inclusive('\n')
        .map(|line| {
            let named = line.starts_with("event:") || line.starts_with("data:");
            if named { format!(": x\n{line}") } else { line.to_owned() }
        })
        .collect();
    let mut ways = vec![
        ("whole".to_owned(), vec![body.as_bytes().to_vec()]),
        ("CR LF".to_owned(), vec![crlf.as_bytes().to_vec()]),
        ("cut between CR and LF".to_owned(), between.collect()),
        ("with comments".to_owned(), vec![commented.into_bytes()]),
    ];
    for size in [1, 2, 3, 7, 1021] {
        let pieces = body.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
        ways.push((format!("in pieces of {size}"), pieces));
    }
    ways
}

/// Checks the fixtures of a dialect; `kept` is what expectations say of an opaque item.
fn check(dialect: &str, count: usize, decode: Decode, kept: fn(&Value) -> Option<Value>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams").join(dialect);
    let mut files = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sse") {
            check_stream(&path, decode, kept);
            files += 1;
        }
    }
    assert_eq!(files, count, "a fixture of {dialect} is missing or new");
}

fn check_stream(path: &Path, decode: Decode, kept: fn(&Value) -> Option<Value>) {
    let body = fs::read_to_string(path).unwrap();
    let expectation = fs::read_to_string(path.with_extension("expect.json")).unwrap();
    let mut expected: Value = serde_json::from_str(&expectation).unwrap();
    let fields = expected.as_object_mut().unwrap();
    fields.remove("why");
    let class = fields.remove("error_class");
    fields.entry("opaque").or_insert(json!([]));
    let ended_badly = fields["stop"] == "error" || fields["stop"] == "cut";
    if ended_badly {
        fields["stop"] = json!("fault");
    }
    for (way, pieces) in ways(&body) {
        let place = format!("{}, {way}", path.display());
        let folded = Folded::of(decode(&pieces));
        assert_eq!(folded.to_expectation(kept), expected, "{place}");
        if let Some(class) = &class {
            assert_eq!(json!(folded.fault_class()), *class, "{place}");
        }
    }
}
