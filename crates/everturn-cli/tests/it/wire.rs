//! Against a server that speaks Chat Completions.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use crate::place::Place;

/// A server that answers each request with the next of its bodies, and gives the requests it was sent.
fn serve(answers: Vec<String>) -> (String, JoinHandle<Vec<(String, Value)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving =
        thread::spawn(move || answers.into_iter().map(|answer| serve_one(&listener, &answer)).collect());
    (format!("http://{address}/v1"), serving)
}

/// Answers one request; gives its head and its body.
fn serve_one(listener: &TcpListener, answer: &str) -> (String, Value) {
    let (mut connection, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    connection.write_all(answer.as_bytes()).unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}

/// An event stream of these chunks, ended well.
fn stream(chunks: &[Value]) -> String {
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}data: [DONE]\n\n"
    )
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "r1", "model": "test", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

#[test]
fn a_question_goes_to_any_server_with_its_tools() {
    let call = json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function",
        "function": {"name": "grep", "arguments": "{\"pattern\":\"7_000\"}"}}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 31, "completion_tokens": 9}});
    let (url, serving) = serve(vec![
        stream(&[chunk(&call, None), chunk(&json!({}), Some("tool_calls"))]),
        stream(&[chunk(&json!({"content": "It is large."}), None), chunk(&json!({}), Some("stop")), usage]),
    ]);
    let place = Place::new();
    let model = format!("chat/test@{url}");
    let mut command = place.command(&["run", "which is the largest?", "--model", &model]);
    command.env("EVERTURN_CHAT_API_KEY", "key-of-the-endpoint").env("OPENAI_API_KEY", "key-of-another");
    assert_eq!(crate::place::ran(command).well(), "It is large.\n");

    let requests = serving.join().unwrap();
    for (head, _) in &requests {
        assert!(head.contains("POST /v1/chat/completions"), "{head}");
        assert!(head.contains("key-of-the-endpoint") && !head.contains("key-of-another"), "{head}");
    }
    let tools: Vec<&str> = requests[0].1["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["read", "list", "glob", "grep", "write", "edit", "exec", "todo", "ask", "agent"]);
    let messages = requests[1].1["messages"].as_array().unwrap();
    assert_eq!(messages[1]["tool_calls"][0]["id"], "call_a");
    assert_eq!(messages[2]["tool_call_id"], "call_a");
    assert!(messages[2]["content"].as_str().unwrap().contains("src/large.rs:2:"), "{messages:?}");
    assert!(place.run(&["show", &place.newest()]).well().contains("31 tokens in, 9 out"));
}

#[test]
fn a_server_that_refuses_cuts_or_lies_fails_the_turn_with_its_class() {
    let refusal = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"no\"}}";
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>welcome</html>";
    let cut = stream(&[chunk(&json!({"content": "half of"}), None)]).replace("data: [DONE]\n\n", "");
    let lie = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {\"choices\": 5}\n\n";
    for (answer, class) in [(refusal, "auth"), (page, "malformed"), (&cut, "transient"), (lie, "malformed")] {
        let (url, serving) = serve(vec![answer.to_owned()]);
        let place = Place::new();
        place
            .run(&["run", "x", "--model", &format!("chat/test@{url}")])
            .refused(1, &format!("the turn failed: {class}"));
        serving.join().unwrap();
        place.run(&["run", "--continue", "hello", "--model", "demo"]).well();
    }
}
