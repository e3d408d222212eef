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
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    thread,
};
use tracing_subscriber::prelude::*;

/// A collector on the loopback: where it listens, and each path with the body that it was sent.
fn collector() -> std::io::Result<(String, Receiver<(String, Vec<u8>)>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let (sender, sent) = channel();
    thread::spawn(move || -> std::io::Result<()> {
        for stream in listener.incoming() {
            let mut stream = stream?;
            let mut reader = BufReader::new(&stream);
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line)?;
                if line.trim_end().is_empty() {
                    break;
                }
                head.push(line.to_lowercase());
            }
            let length =
                head.iter().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
            let path = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
            sender.send((path, body)).ok();
        }
        Ok(())
    });
    Ok((endpoint, sent))
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
