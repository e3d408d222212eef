//! What the command sends to a collector.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
};

use crate::place::{Place, ran};

/// A collector: where it listens, and what it is sent, head and body.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, sent) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = read(&stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
            // The test may be over.
            let _ = sender.send(request);
        }
    });
    (endpoint, sent)
}

fn read(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "a request has an end");
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

fn says(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

#[test]
fn a_run_is_exported_where_the_environment_names_a_collector() {
    let (place, (endpoint, sent)) = (Place::new(), collector());
    let mut command = place.command(&["run", "which function under src returns the largest number?"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20key");
    let ran = ran(command);
    assert!(!ran.err.contains("telemetry"), "{ran:?}");
    assert!(ran.well().contains("large"));

    let mut sent: Vec<_> = sent.try_iter().collect();
    sent.sort();
    let [(metrics, counted), (traces, spans)] = sent.try_into().unwrap();
    assert!(metrics.starts_with("post /v1/metrics ") && metrics.contains("x-key: a key\r\n"), "{metrics}");
    assert!(traces.starts_with("post /v1/traces ") && traces.contains("x-key: a key\r\n"), "{traces}");
    assert!(says(&counted, "gen_ai.client.inference.usage.input_tokens"));
    for name in ["session", "invoke_agent", "chat demo", "execute_tool read"] {
        assert!(says(&spans, name), "{name} is exported");
    }
    assert!(!says(&spans, "largest number"), "what was said stays here");
}

#[test]
fn what_does_not_arrive_is_said_and_changes_nothing_else() {
    let place = Place::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = place.command(&["run", "hello"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{free}"));
    let ran = ran(command);
    assert!(ran.err.contains("spans and the last metrics did not arrive"), "{ran:?}");
    ran.well();
}

#[test]
fn an_endpoint_that_cannot_be_one_is_wrong_usage() {
    let place = Place::new();
    let mut command = place.command(&["sessions"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
    ran(command).refused(2, "neither http nor https");
}
