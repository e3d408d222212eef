//! A process that works: it runs the sessions of a SQLite file that want to run, until its standard input ends.
//!
//! `worker FILE LEDGER`

use std::{env, io, path::Path, process, sync::Arc, thread};

use everturn::{CancelToken, Harness, Result, Worker, WorkerSettings, World, store, store::Options};
use everturn_worlds::tasks::{Ledger, workshop};

#[tokio::main]
async fn main() {
    thread::spawn(|| {
        // Whoever started this process holds the other end: when it goes, so does this.
        let _gone = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, ledger] = arguments.as_slice() else { panic!("usage: worker FILE LEDGER") };
    if let Err(error) = work(file, ledger).await {
        println!("failed {error}");
    }
}

async fn work(file: &str, ledger: &str) -> Result<()> {
    let store = store::open(&format!("sqlite:{file}"), Options::new(World::system().owner())).await?;
    let code = workshop(&Arc::new(Ledger::open(Path::new(ledger))));
    let harness = Harness::builder(store).install(code)?.open().await?;
    println!("works {}", harness.opener().owner);
    let settings = WorkerSettings { poll_ms: 100, ..WorkerSettings::default() };
    Worker::new(harness, settings).run(&CancelToken::new()).await
}
