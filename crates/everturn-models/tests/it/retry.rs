//! Answers that are no streams, and what to make of them.

use everturn_core::{clock::Timestamp, model::FaultClass};
use everturn_models::answer::Answer;
use serde_json::{Value, json};

const CASES: &str = include_str!("../fixtures/requests/retry.jsonl");

/// The time of the cases that have one: 2026-10-01T12:00:00Z.
const NOW: Timestamp = Timestamp(1_790_856_000_000);

fn check(case: &Value) {
    let headers: Vec<_> = case["headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
    let fault = Answer {
        status: u16::try_from(case["status"].as_u64().unwrap()).unwrap(),
        headers: &headers,
        body: body.as_bytes(),
        now: NOW,
    }
    .fault();
    let mut found = json!({"class": fault.class, "retry": fault.may_retry()});
    if let Some(wait_ms) = fault.wait_ms {
        found["wait_ms"] = json!(wait_ms);
    }
    assert_eq!(found, case["expect"], "{}", case["id"]);
}

#[test]
fn every_refusal_is_classed_and_its_wait_is_read() {
    let cases: Vec<Value> = CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 54, "a case is missing or new");
    cases.iter().for_each(check);
}

fn answer<'a>(status: u16, headers: &'a [(String, String)], body: &'a str) -> Answer<'a> {
    Answer { status, headers, body: body.as_bytes(), now: NOW }
}

#[test]
fn milliseconds_go_before_seconds_and_a_date_counts_from_now() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let wait = |headers: &[_]| answer(429, headers, "").fault().wait_ms;
    assert_eq!(wait(&[header("retry-after", "9"), header("retry-after-ms", "250")]), Some(250));
    assert_eq!(wait(&[header("retry-after", "Thu, 01 Oct 2026 12:00:42 GMT")]), Some(42_000));
    assert_eq!(wait(&[header("retry-after", "Thu, 01 Oct 2026 11:59:00 GMT")]), None);
    assert_eq!(wait(&[header("retry-after", "0")]), None);
}

#[test]
fn the_server_decides_about_a_retry_unless_it_cannot_help() {
    let retry = |status, said: &str, body| {
        answer(status, &[("x-should-retry".into(), said.into())], body).fault().may_retry()
    };
    assert!(!retry(500, "false", ""));
    assert!(retry(409, "true", ""));
    assert!(!retry(429, "true", r#"{"error":{"code":"insufficient_quota"}}"#));
}

#[test]
fn only_the_message_may_tell_that_a_request_is_too_long_or_bound() {
    let class =
        |message: &str| answer(400, &[], &json!({"error": {"message": message}}).to_string()).fault().class;
    assert_eq!(class("This model's maximum context length is 4096 tokens."), FaultClass::TooLong);
    assert_eq!(class("The block is bound to a different conversation."), FaultClass::Binding);
}

#[test]
fn a_message_is_one_short_line_with_the_id_of_the_request() {
    let long = format!("a\nb{}", "c".repeat(1000));
    let fault = answer(500, &[("X-Request-Id".into(), "r7".into())], &long).fault();
    assert_eq!(fault.message, format!("status 500: a b{}…", "c".repeat(497)));
    assert_eq!((fault.request.as_deref(), fault.status), (Some("r7"), Some(500)));
}
