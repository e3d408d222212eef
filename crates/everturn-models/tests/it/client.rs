//! The HTTP client against a server on the loopback interface that says what it is told to say.

use std::{fs, path::Path, sync::Arc, time::Duration};

use everturn_core::{
    message::{Message, Stop},
    model::{Delta, DeltaStream, Fault, FaultClass, Model, Request},
};
use everturn_models::{Anthropic, Chat, ClientConfig, Gemini, OpenAi};
use futures_util::{FutureExt, StreamExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{clock::ManualClock, fold::Folded};

const CHUNK: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Yes.\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const KEY: &str = "key-of-the-base";
const ENDPOINT_KEY: &str = "key-of-the-rest";

/// A server that takes one request, says `answer`, and closes when the test lets go of the connection.
async fn serve(answer: String) -> (String, JoinHandle<(String, TcpStream)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = read_request(&mut socket).await;
        socket.write_all(answer.as_bytes()).await.unwrap();
        (request, socket)
    });
    (base, server)
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        socket.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse::<usize>().unwrap() {
            return String::from_utf8(bytes).unwrap();
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n{body}")
}

fn events(body: &str) -> String {
    answer("200 OK", "content-type: text/event-stream; charset=utf-8\r\nx-request-id: r7\r\n", body)
}

fn chat(base: &str, clock: &ManualClock) -> Chat {
    let config = ClientConfig {
        key: Some(KEY.to_owned().into()),
        endpoint_key: Some(ENDPOINT_KEY.to_owned().into()),
        system_proxy: false,
        ..ClientConfig::new(base)
    };
    Chat::new(config, Arc::new(clock.clone())).unwrap()
}

fn request() -> Request {
    Request::new("qwen", [Message::user("hello")])
}

/// Asks a server that says `answer`; gives its request, the answer, and its address.
async fn ask(answer: String) -> (String, Folded, String) {
    let (base, server) = serve(answer).await;
    let stream = chat(&base, &ManualClock::default()).stream(request());
    let closed = async { server.await.unwrap().0 };
    let (request, deltas) = tokio::join!(closed, stream.collect::<Vec<_>>());
    (request, Folded::of(deltas), base.replace("/v1", ""))
}

/// The fault of an answer; `HOST` in the expected message stands for the server's scheme, host and port.
async fn check_fault(answer: String, class: FaultClass, status: Option<u16>, message: &str) -> Fault {
    let (_, folded, host) = ask(answer).await;
    let fault = folded.fault.unwrap();
    assert_eq!((fault.class, fault.status), (class, status), "{fault}");
    assert_eq!(fault.message.replace(&host, "HOST"), format!("ask HOST for qwen: {message}"));
    fault
}

#[tokio::test]
async fn an_answer_streams_to_its_end() {
    let (request, folded, _) = ask(events(&format!("{CHUNK}{FINISH}data: [DONE]\n\n"))).await;
    assert_eq!((folded.text.as_str(), folded.stop), ("Yes.", Some(Stop::Answer)));
    let head = request.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\naccept: text/event-stream\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nauthorization: bearer {KEY}\r\n")), "{head}");
}

#[tokio::test]
async fn a_cut_answer_is_a_fault_behind_what_came() {
    let (_, folded, _) = ask(events(CHUNK)).await;
    assert_eq!(folded.text, "Yes.");
    let fault = folded.fault.unwrap();
    assert_eq!((fault.class, fault.request.as_deref()), (FaultClass::Transient, Some("r7")));

    let chunked = format!("{:x}\r\n{CHUNK}\r\n", CHUNK.len());
    let headers = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
    let (_, folded, _) = ask(answer("200 OK", headers, &chunked)).await;
    assert_eq!((folded.text.as_str(), folded.fault_class()), ("Yes.", Some(FaultClass::Transient)));
}

#[tokio::test]
async fn a_page_is_no_stream() {
    let page = answer("200 OK", "content-type: text/html\r\n", "<html><body>Welcome</body></html>");
    let message = "the answer is text/html and no event stream; check the base URL (it usually ends in /v1) and that the \
                   server can stream";
    check_fault(page, FaultClass::Malformed, Some(200), message).await;
}

#[tokio::test]
async fn an_error_in_json_under_status_200_is_what_it_says() {
    let body = r#"{"error":{"code":429,"message":"slow down"}}"#;
    let json = answer("200 OK", "content-type: application/json\r\n", body);
    let message = "the server broke off the answer: slow down";
    check_fault(json, FaultClass::RateLimited, Some(200), message).await;
}

#[tokio::test]
async fn a_refused_key_is_never_shown() {
    let body = format!(r#"{{"error":{{"message":"wrong key {KEY}"}}}}"#);
    let message = "status 401: wrong key [key]; set EVERTURN_CHAT_API_KEY to a key of this endpoint";
    let refusal = answer("401 Unauthorized", "x-request-id: r9\r\n", &body);
    let fault = check_fault(refusal, FaultClass::Auth, Some(401), message).await;
    assert_eq!((fault.request.as_deref(), fault.may_retry()), (Some("r9"), false));
}

#[tokio::test]
async fn a_wait_reaches_the_fault() {
    let busy = answer("503 Service Unavailable", "retry-after: 20\r\n", "");
    let fault = check_fault(busy, FaultClass::Transient, Some(503), "status 503: no word why").await;
    assert_eq!(fault.wait(), Some(Duration::from_secs(20)));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let redirect = answer("307 Temporary Redirect", "location: https://elsewhere.test/v1?token=x\r\n", "");
    let message = "status 307: redirected to https://elsewhere.test, which is not followed, since the key is for this \
                   endpoint alone; set the base URL to where the server is";
    check_fault(redirect, FaultClass::Invalid, Some(307), message).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let deltas: Vec<_> =
        chat(&format!("{host}/v1"), &ManualClock::default()).stream(request()).collect().await;
    let fault = Folded::of(deltas).fault.unwrap();
    assert_eq!(fault.class, FaultClass::Transient);
    assert!(fault.message.starts_with(&format!("ask {host} for qwen: no connection: ")), "{fault}");
}

#[tokio::test]
async fn a_key_goes_only_where_it_belongs() {
    let done = || events(&format!("{FINISH}data: [DONE]\n\n"));
    let (base, server) = serve(done()).await;
    let elsewhere = chat("http://127.0.0.1:9/v1", &ManualClock::default());
    let with_endpoint = Request { endpoint: Some(base.clone()), ..request() };
    let (served, _) = tokio::join!(server, elsewhere.stream(with_endpoint).collect::<Vec<_>>());
    let sent = served.unwrap().0;
    assert!(sent.contains(ENDPOINT_KEY) && !sent.contains(KEY), "{sent}");

    let (base, server) = serve(done()).await;
    let with_endpoint = Request { endpoint: Some(format!("{base}/")), ..request() };
    let model = chat(&base, &ManualClock::default());
    let (served, _) = tokio::join!(server, model.stream(with_endpoint).collect::<Vec<_>>());
    let sent = served.unwrap().0;
    assert!(sent.contains(KEY) && !sent.contains(ENDPOINT_KEY), "{sent}");
}

#[tokio::test]
async fn an_endpoint_with_a_password_is_refused_before_anything_is_sent() {
    let model = chat("http://127.0.0.1:9/v1", &ManualClock::default());
    let with_endpoint = Request { endpoint: Some("http://me:secret@127.0.0.1:9/v1".into()), ..request() };
    let deltas: Vec<_> = model.stream(with_endpoint).collect().await;
    let fault = Folded::of(deltas).fault.unwrap();
    assert_eq!(fault.class, FaultClass::Invalid);
    assert!(!fault.message.contains("secret"), "{fault}");
}

/// Moves time on until the stream gives something.
async fn next_in_silence(stream: &mut DeltaStream, clock: &ManualClock) -> Option<Result<Delta, Fault>> {
    loop {
        if let Some(delta) = stream.next().now_or_never() {
            return delta;
        }
        clock.advance(Duration::from_secs(300));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn silence_ends_the_answer() {
    let (base, server) = serve(events(CHUNK)).await;
    let clock = ManualClock::default();
    let mut stream = chat(&base, &clock).stream(request());
    // The server holds the connection open for as long as the test holds its end.
    let ((_, _socket), started) = tokio::join!(async { server.await.unwrap() }, stream.next());
    assert!(matches!(started, Some(Ok(Delta::Started { .. }))), "{started:?}");
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("Yes.".into()))));
    let fault = next_in_silence(&mut stream, &clock).await.unwrap().unwrap_err();
    assert_eq!(fault.class, FaultClass::Transient);
    assert!(fault.message.ends_with("no byte came for 300 s, so the connection was given up"), "{fault}");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (base, server) = serve(events(CHUNK)).await;
    let mut stream = chat(&base, &ManualClock::default()).stream(request());
    let ((_, mut socket), _) = tokio::join!(async { server.await.unwrap() }, stream.next());
    drop(stream);
    let mut rest = Vec::new();
    assert_eq!(socket.read_to_end(&mut rest).await.unwrap_or(0), 0);
}

#[test]
fn no_cryptography_is_installed_for_the_whole_process() {
    chat("https://127.0.0.1:9/v1", &ManualClock::default());
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

/// What a provider's client sends, and the answer as it is understood.
async fn exchange<M: Model>(client: impl FnOnce(ClientConfig) -> M, body: &str) -> (String, Folded) {
    let (base, server) = serve(events(body)).await;
    let config = ClientConfig {
        key: Some(KEY.to_owned().into()),
        system_proxy: false,
        ..ClientConfig::new(format!("{base}/"))
    };
    let stream = client(config).stream(request());
    let closed = async { server.await.unwrap().0 };
    let (request, deltas) = tokio::join!(closed, stream.collect::<Vec<_>>());
    (request, Folded::of(deltas))
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::default())
}

#[tokio::test]
async fn each_provider_is_asked_at_its_own_place_with_its_own_header() {
    let fixture = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams");
        fs::read_to_string(folder.join(name)).unwrap()
    };
    let anthropic = |config| Anthropic::new(config, clock()).unwrap();
    let (request, answer) = exchange(anthropic, &fixture("anthropic/plain.sse")).await;
    assert!(request.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{request}");
    for header in [format!("x-api-key: {KEY}\r\n"), "anthropic-version: 2023-06-01\r\n".into()] {
        assert!(request.contains(&header), "{request}");
    }
    assert!(!request.contains("authorization") && answer.stop == Some(Stop::Answer), "{request} {answer:?}");

    let openai = |config| OpenAi::new(config, clock()).unwrap();
    let (request, answer) = exchange(openai, &fixture("responses/plain.sse")).await;
    assert!(request.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("authorization: Bearer {KEY}\r\n")), "{request}");
    assert_eq!(answer.stop, Some(Stop::Answer));

    let gemini = |config| Gemini::new(config, clock()).unwrap();
    let (request, answer) = exchange(gemini, &fixture("gemini/plain.sse")).await;
    let place = "POST /v1/models/qwen:streamGenerateContent?alt=sse HTTP/1.1\r\n";
    assert!(request.starts_with(place), "{request}");
    assert!(request.contains(&format!("x-goog-api-key: {KEY}\r\n")), "{request}");
    assert_eq!(answer.stop, Some(Stop::Answer));
}

#[tokio::test]
async fn a_refused_key_is_told_by_the_name_of_the_provider_s_variable() {
    let (base, server) = serve(answer("401 Unauthorized", "", "{}")).await;
    let config = ClientConfig { system_proxy: false, ..ClientConfig::new(&base) };
    let stream = Anthropic::new(config, clock()).unwrap().stream(request());
    let closed = async { drop(server.await.unwrap()) };
    let ((), deltas) = tokio::join!(closed, stream.collect::<Vec<_>>());
    let fault = Folded::of(deltas).fault.unwrap();
    assert!(fault.message.contains("set ANTHROPIC_API_KEY to a key of this endpoint"), "{fault}");
}
