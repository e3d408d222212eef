//! A collector that is not there, or says nothing: turns go on, and shutting down ends in its time.

use std::{net::TcpListener, time::Duration};

use everturn_otel::{Delivered, Options};

use crate::{delivered::SPANS, scene::Scene};

const LOST: Delivered = Delivered { spans: 0, spans_lost: SPANS, metrics_lost: true };

#[tokio::test]
async fn a_collector_that_refuses_costs_its_spans_and_nothing_else() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(Scene::default().play(Options::new(format!("http://{free}"))).await, LOST);
}

// The listener's queue takes the connections, and nobody ever reads from them.
#[tokio::test]
async fn a_collector_that_never_answers_costs_its_spans_and_nothing_else() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let options = Options { timeout: Duration::from_millis(50), ..Options::new(endpoint) };
    assert_eq!(Scene::default().play(options).await, LOST);
}
