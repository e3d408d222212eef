//! Telemetry: the spans of a turn and what the harness counted go to an OpenTelemetry collector, here one that only says where
//! it was sent something. What was said stays in the process, unless the host wants it exported.

use everturn::{
    Harness, Input, Models, Result, SessionSpec,
    kernel::Memory,
    otel::{self, Delivered, Options},
    store::Store,
};
use everturn_testkit::scripted::{Reply, Scripted};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
};
use tracing_subscriber::prelude::*;

/// What a collector was sent: a path and a body.
type Sent = (String, Vec<u8>);

/// A collector on the loopback that takes everything: where it listens, and what it was sent.
fn collector() -> io::Result<(String, Receiver<Sent>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let (sender, sent) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(request) = stream.and_then(take) else { continue };
            sender.send(request).ok();
        }
    });
    Ok((endpoint, sent))
}

fn take(mut stream: TcpStream) -> io::Result<Sent> {
    let mut reader = BufReader::new(&stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
    Ok((head.split(' ').nth(1).unwrap_or_default().to_owned(), body))
}

#[tokio::main]
async fn main() -> Result<()> {
    let (endpoint, sent) = collector().expect("a port is free");
    let telemetry = otel::start(Options { service: "kitchen".into(), ..Options::new(endpoint) })?;
    tracing_subscriber::registry().with(telemetry.layer()).init();

    let model = Scripted::new([Reply::text("They are soft.").usage(30, 5)]);
    let models = Models::new().provider("scripted", model);
    let harness = Harness::builder(Store::new(Memory::new())).models(models).open().await?;
    let counted = harness.clone();
    telemetry.metrics(move || counted.metrics());

    let session = harness.create(SessionSpec::model("scripted/small".parse()?)).await?;
    let answer = session.root().submit(Input::text("How are the eggs?")).await?.answer().await?;
    assert!(answer.is_answered());
    session.close().await?;
    drop(session);

    // It waits for the collector, so not on a thread that runs turns.
    let delivered = tokio::task::spawn_blocking(|| telemetry.shutdown()).await.expect("it does not panic");
    let Delivered { spans, spans_lost, metrics_lost } = delivered;
    println!(
        "{spans} spans arrived, {spans_lost} were lost; the metrics {}",
        if metrics_lost { "too" } else { "arrived" }
    );
    assert!(delivered.is_whole() && spans >= 2);

    let mut sent: Vec<_> = sent.try_iter().collect();
    sent.sort();
    let paths: Vec<_> = sent.iter().map(|(path, _)| &**path).collect();
    assert_eq!(paths, ["/v1/metrics", "/v1/traces"]);
    let says = |body: &[u8], text: &str| body.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(says(&sent[1].1, "chat small") && says(&sent[1].1, "invoke_agent"));
    assert!(
        !sent.iter().any(|(_, body)| says(body, "eggs") || says(body, "soft")),
        "nothing that was said leaves"
    );
    Ok(())
}
