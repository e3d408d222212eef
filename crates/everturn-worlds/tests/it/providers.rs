//! One conversation over all providers in turn, at a server that refuses what they refuse: each goes on with what the
//! others have said, signed and encrypted as it is.

use std::sync::{Arc, Mutex};

use everturn::{
    AgentChange, Extension, Harness, Input, Models, Result, SessionSpec, SystemClock,
    kernel::Memory,
    models::{Anthropic, Chat, ClientConfig, Gemini, OpenAi},
    store::Store,
    tool::{ToolResult, tool},
};
use everturn_testkit::strict;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[tool(replay = "safe")]
/// Weighs it.
async fn weigh() -> ToolResult {
    Ok("3 g".into())
}

/// What a provider's server refuses, and what it says otherwise: first a call, behind its result an answer.
struct Dialect {
    path: &'static str,
    check: fn(&[u8]) -> std::result::Result<(), String>,
    /// Where the newest thing that was said stands, and whether it is a call's result.
    is_result: fn(&Value) -> bool,
    call: fn() -> Vec<Value>,
    answer: fn() -> Vec<Value>,
}

fn last(list: &Value) -> &Value {
    list.as_array().and_then(|list| list.last()).unwrap()
}

const DIALECTS: [Dialect; 4] = [
    Dialect {
        path: "/messages",
        check: strict::anthropic::check,
        is_result: |body| last(&body["messages"])["content"][0]["type"] == "tool_result",
        call: || {
            vec![
                json!({"type": "message_start", "message": {"id": "m1"}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "Hm."}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "weigh", "input": {}}}),
                json!({"type": "content_block_stop", "index": 1}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ]
        },
        answer: || {
            vec![
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "3 g."}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
                json!({"type": "message_stop"}),
            ]
        },
    },
    Dialect {
        path: "/responses",
        check: strict::openai::check,
        is_result: |body| last(&body["input"])["type"] == "function_call_output",
        call: || {
            let reasoning =
                json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"});
            let call = json!({"type": "function_call", "call_id": "call_1", "name": "weigh", "arguments": "{}", "status": "completed"});
            vec![
                json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
                json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
                json!({"type": "response.completed", "response": {"id": "r1"}}),
            ]
        },
        answer: || {
            vec![
                json!({"type": "response.output_text.delta", "delta": "3 g."}),
                json!({"type": "response.completed", "response": {"id": "r1"}}),
            ]
        },
    },
    Dialect {
        path: ":streamGenerateContent",
        check: |body| strict::gemini::check(body, true),
        is_result: |body| last(&body["contents"])["parts"][0].get("functionResponse").is_some(),
        call: || {
            let part = json!({"functionCall": {"name": "weigh", "args": {}}, "thoughtSignature": "c2ln"});
            vec![json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})]
        },
        answer: || {
            vec![json!({"candidates": [{"content": {"parts": [{"text": "3 g."}]}, "finishReason": "STOP"}]})]
        },
    },
    Dialect {
        path: "/chat/completions",
        check: strict::chat::check,
        is_result: |body| last(&body["messages"])["role"] == "tool",
        call: || {
            // The same id each time, as some servers have it.
            let call = json!({"index": 0, "id": "call_0", "function": {"name": "weigh", "arguments": "{}"}});
            let delta = json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "ZW5j"}], "tool_calls": [call]});
            vec![json!({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]})]
        },
        answer: || vec![json!({"choices": [{"delta": {"content": "3 g."}, "finish_reason": "stop"}]})],
    },
];

/// Answers requests until the test ends; keeps the bodies, and why one was refused.
async fn serve(listener: TcpListener, asked: Arc<Mutex<Vec<String>>>) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (path, body) = read(&mut socket).await;
        let dialect = DIALECTS.iter().find(|dialect| path.contains(dialect.path)).unwrap();
        let answer = match (dialect.check)(&body) {
            Ok(()) => {
                let request: Value = serde_json::from_slice(&body).unwrap();
                let said = if (dialect.is_result)(&request) { (dialect.answer)() } else { (dialect.call)() };
                let events: String = said.iter().map(|event| format!("data: {event}\n\n")).collect();
                format!("200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
            }
            Err(why) => {
                let error = json!({"error": {"message": why}}).to_string();
                let length = error.len();
                format!(
                    "400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{error}"
                )
            }
        };
        asked.lock().unwrap().push(String::from_utf8(body).unwrap());
        socket.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await.unwrap();
    }
}

/// The path and the body of a request.
async fn read(socket: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        socket.read_buf(&mut bytes).await.unwrap();
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if bytes.len() - end - 4 >= length.unwrap() {
            let path = head.split(' ').nth(1).unwrap().to_owned();
            return (path, bytes.split_off(end + 4));
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on_at_any_provider_with_what_the_others_have_said() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<String>>>::default();
    tokio::spawn(serve(listener, asked.clone()));

    let config = || ClientConfig { system_proxy: false, ..ClientConfig::new(&base) };
    let clock = Arc::new(SystemClock);
    let models = Models::new()
        .provider("anthropic", Anthropic::new(config(), clock.clone())?)
        .provider("chat", Chat::new(config(), clock.clone())?)
        .provider("gemini", Gemini::new(config(), clock.clone())?)
        .provider("openai", OpenAi::new(config(), clock)?);
    let scales = Extension::new("scales").tool(weigh);
    let harness = Harness::builder(Store::new(Memory::new())).models(models).install(scales)?.open().await?;
    let session = harness.create(SessionSpec::model("chat/m".parse()?)).await?;
    let root = session.root();

    // Each of them behind each other one.
    for provider in
        "anthropic chat gemini openai chat anthropic gemini chat openai gemini anthropic openai anthropic"
            .split(' ')
    {
        let model = Some(format!("{provider}/m").parse()?);
        root.configure(AgentChange { model, ..AgentChange::default() }).await?;
        for _ in 0..2 {
            let answer = root.submit(Input::text("Weigh it.")).await?.answer().await?;
            assert_eq!(
                (answer.is_answered(), answer.text.as_str()),
                (true, "3 g."),
                "{provider}: {answer:?}"
            );
        }
    }
    assert_eq!(asked.lock().unwrap().len(), 13 * 2 * 2);
    Ok(())
}
