//! Runs the scenario on a SQLite file and kills its own process at a commit: `killed DIRECTORY [before|after N]`.
//! Without the second it runs to the end and prints what it came to.

use std::{env, path::PathBuf, process::ExitCode};

use everturn::{
    World,
    storage::Layered,
    store::{self, Options, Store},
};
use everturn_testkit::watched::{Moment, Watched};
use everturn_worlds::scenario;
use rustix::process::{Signal, getpid, kill_process};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("killed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (directory, at) = match arguments.as_slice() {
        [directory] => (PathBuf::from(directory), None),
        [directory, moment, number] => {
            let moment = if moment == "before" { Moment::Before } else { Moment::After };
            (PathBuf::from(directory), Some((moment, number.parse::<u64>()?)))
        }
        _ => return Err("usage: killed DIRECTORY [before|after N]".into()),
    };
    let url = format!("sqlite:{}", directory.join("store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await?;
    let store = Store::new(Layered(Watched::new(store, move |moment, number| {
        if at == Some((moment, number)) {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        }
        Box::pin(async {})
    })));
    let outcome = scenario::live(store, &directory.join("effects")).await?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
