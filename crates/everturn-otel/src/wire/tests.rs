use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

use super::*;

/// A wire without pauses to a collector that answers by a script and then is gone; and how many answers it gave.
fn wire(answers: &'static [&'static str]) -> (Wire, thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = thread::spawn(move || {
        let mut given = 0;
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            // The bodies of these tests are empty, so a request ends with its head.
            lines.find(String::is_empty).expect("a request has an end");
            let head = format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            given += 1;
        }
        given
    });
    let wire = Wire::new(&Options::new(endpoint)).unwrap();
    (Wire { pauses: [Duration::ZERO; 2], ..wire }, collector)
}

#[track_caller]
fn check(answers: &'static [&'static str], expected: Result<Vec<u8>, &str>) {
    let (wire, collector) = wire(answers);
    assert_eq!(wire.post(Signal::Traces, b""), expected.map_err(str::to_owned));
    assert_eq!(collector.join().unwrap(), answers.len(), "all answers were asked for");
}

#[test]
fn what_may_pass_is_tried_three_times_and_what_may_not_once() {
    check(&["200 OK"], Ok(Vec::new()));
    check(&["503 Busy", "429 Busy", "200 OK"], Ok(Vec::new()));
    check(&["503 Busy", "502 Busy", "504 Busy"], Err("the collector answered 504 Gateway Timeout"));
    check(&["400 No"], Err("the collector answered 400 Bad Request"));
    check(&["302 There\r\nlocation: /"], Err("the collector answered 302 Found"));
}

#[test]
fn nobody_waits_for_a_collector_longer_than_the_timeout() {
    check(&["503 Busy\r\nretry-after: 3600"], Err("the collector answered 503 Service Unavailable"));
}

#[test]
fn from_its_end_on_a_wire_tries_once() {
    let (wire, collector) = wire(&["503 Busy"]);
    let wire = Wire { pauses: [Duration::from_secs(5); 2], ..wire };
    wire.end();
    let refused = wire.post(Signal::Metrics, b"").unwrap_err();
    assert_eq!(refused, "the collector answered 503 Service Unavailable");
    assert_eq!(collector.join().unwrap(), 1);
}

#[test]
fn a_header_s_value_is_never_shown() {
    let headers = vec![("x-api-key".to_owned(), "hunter2".to_owned().into())];
    let options = Options { headers, ..Options::new("http://127.0.0.1:4318") };
    let shown = format!(
        "{options:?} {:?} {:?}",
        Wire::new(&options).unwrap(),
        crate::start(options.clone()).unwrap()
    );
    assert!(shown.contains("x-api-key") && !shown.contains("hunter2"), "{shown}");
}
