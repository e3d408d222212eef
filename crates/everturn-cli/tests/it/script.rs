//! A model that a test speaks for: each request is handed to the test, which says what is answered.

use std::{
    io::{BufRead, BufReader, Lines, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use serde_json::{Value, json};

use crate::place::{Place, Ran};

/// A server whose answers come from the test.
pub(crate) struct Script {
    pub(crate) model: String,
    requests: Receiver<Value>,
    answers: Sender<String>,
}

impl Script {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = format!("chat/test@http://{}/v1", listener.local_addr().unwrap());
        let ((asked, requests), (answers, answer)) = (channel(), channel::<String>());
        // It ends when the test drops its ends.
        thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let Some(request) = read(&connection) else { continue };
                if asked.send(request).is_err() {
                    return;
                }
                let Ok(answer) = answer.recv() else { return };
                // Who asked may have been killed meanwhile.
                let _ = connection.write_all(answer.as_bytes());
            }
        });
        Self { model, requests, answers }
    }

    /// Waits for the next request; while it is not answered, its turn runs.
    pub(crate) fn asked(&self) -> Value {
        self.requests.recv().unwrap()
    }

    pub(crate) fn says(&self, text: &str) {
        self.send(&[chunk(&json!({"content": text}), None), chunk(&json!({}), Some("stop"))]);
    }

    /// Answers with calls, each a tool and its arguments.
    pub(crate) fn calls(&self, calls: &[(&str, Value)]) {
        let call = |(at, (tool, arguments)): (usize, &(&str, Value))| {
            json!({"index": at, "id": format!("call_{at}"), "type": "function",
                "function": {"name": tool, "arguments": arguments.to_string()}})
        };
        let calls: Vec<_> = calls.iter().enumerate().map(call).collect();
        self.send(&[chunk(&json!({"tool_calls": calls}), None), chunk(&json!({}), Some("tool_calls"))]);
    }

    fn send(&self, chunks: &[Value]) {
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}});
        let events: String =
            chunks.iter().chain([&usage]).map(|chunk| format!("data: {chunk}\n\n")).collect();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        self.answers.send(format!("{head}{events}data: [DONE]\n\n")).unwrap();
    }
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "r1", "model": "test", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// The body of a request; none where the connection was given up.
fn read(connection: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// The results that a request has, by the order of their calls.
pub(crate) fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].to_string()).collect()
}

/// A process of the command that runs beside the test.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Running {
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::of(place.command(arguments))
    }

    /// One that waits for what the test types.
    pub(crate) fn piped(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(arguments);
        command.stdin(Stdio::piped());
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, out, err }
    }

    /// Waits until standard error says this.
    pub(crate) fn told(&mut self, says: &str) -> String {
        self.err.by_ref().map(Result::unwrap).find(|line| line.contains(says)).unwrap()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Ran {
        let text = |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect();
        let out = text(self.out.map(Result::unwrap).collect());
        let err = text(self.err.map(Result::unwrap).collect());
        Ran { code: self.child.wait().unwrap().code(), out, err }
    }
}
