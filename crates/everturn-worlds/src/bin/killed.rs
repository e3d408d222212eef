//! Runs a scenario on a SQLite file and kills its own process on the way:
//!
//! * `killed turns DIRECTORY [before|after N]`: at a commit;
//! * `killed session DIRECTORY [before|after N]`: at a commit;
//! * `killed payment|ticker|checkout|tree DIRECTORY [before|after N]`: at a commit;
//! * `killed kernel DIRECTORY [before|after N]`: at an operation;
//! * `killed kernel DIRECTORY step NAME`: before a step;
//! * `killed kernel DIRECTORY ring N`: when the store has rung so often while it deletes a session.
//!
//! Without a kill it runs to the end and prints what it came to.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use everturn::{
    BoxFuture, Result, World,
    env::Env,
    id::{Epoch, OwnerId, SessionId},
    storage::{Layer, Layered},
    store::{self, Options, Store},
    task::{WaitPolicy, tree::Reach},
    tools::Directory,
};
use everturn_testkit::watched::{Moment, Watched};
use everturn_worlds::{
    kernel,
    notebook::Notebook,
    operations, scenario,
    session::{self, Scene},
    tasks::{Checkout, Ledger, Payment, Place, Scenario, Ticker, Tree, live},
};
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

/// Where the process ends.
#[derive(Clone, PartialEq)]
enum Kill {
    Never,
    At(Moment, u64),
    Step(String),
    Ring(u64),
}

impl Kill {
    fn of(arguments: &[String]) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        Ok(match arguments {
            [] => Self::Never,
            [when, number] if when == "before" => Self::At(Moment::Before, number.parse()?),
            [when, number] if when == "after" => Self::At(Moment::After, number.parse()?),
            [when, number] if when == "ring" => Self::Ring(number.parse()?),
            [when, name] if when == "step" => Self::Step(name.clone()),
            _ => return Err("when? before N, after N, ring N, or step NAME".into()),
        })
    }

    /// Ends the process, if it is to end here.
    fn meet(&self, here: &Kill) {
        if self == here {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        }
    }

    fn meet_at(&self, moment: Moment, number: u64) -> BoxFuture<'static, ()> {
        self.meet(&Self::At(moment, number));
        Box::pin(async {})
    }
}

async fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [scenario, directory, kill @ ..] = arguments.as_slice() else {
        return Err("usage: killed turns|session|kernel|payment|ticker|checkout|tree DIRECTORY [WHEN]".into());
    };
    let (directory, kill) = (PathBuf::from(directory), Kill::of(kill)?);
    let url = format!("sqlite:{}", directory.join("store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await?;
    let came_to = match scenario.as_str() {
        "turns" => turns(store, &directory, kill).await?,
        "session" => whole(store, &directory, kill).await?,
        "payment" => tasks(Payment, store, &directory, kill).await?,
        "ticker" => tasks(Ticker(Duration::from_millis(5)), store, &directory, kill).await?,
        "checkout" => {
            let checkout = Checkout { policy: WaitPolicy::FailFast, soon_ms: 5 };
            tasks(checkout, store, &directory, kill).await?
        }
        "tree" => tasks(Tree { commits: 7, reach: Reach::Ordinary }, store, &directory, kill).await?,
        _ => kernel(store, &directory, kill).await?,
    };
    println!("{came_to}");
    Ok(())
}

/// A store at whose commits the process ends.
fn watched(store: Store, kill: Kill) -> Store {
    Store::new(Layered(Watched::new(store, move |moment, number| kill.meet_at(moment, number))))
}

async fn tasks(
    scenario: impl Scenario,
    store: Store,
    directory: &Path,
    kill: Kill,
) -> Result<serde_json::Value> {
    let ledger = Arc::new(Ledger::open(&directory.join("ledger")));
    let place = Place { store: watched(store, kill), world: World::system(), ledger };
    Ok(serde_json::json!(live(&scenario, place).await?))
}

async fn turns(store: Store, directory: &Path, kill: Kill) -> Result<serde_json::Value> {
    let store = watched(store, kill);
    let outcome = scenario::live(store, &directory.join("effects")).await?;
    Ok(serde_json::json!(outcome))
}

async fn whole(store: Store, directory: &Path, kill: Kill) -> Result<serde_json::Value> {
    let files = directory.join("files");
    if !files.exists() {
        // They are there before the session: what becomes of them is its own.
        session::put_files(&files)?;
    }
    let ledger = Arc::new(Ledger::open(&directory.join("ledger")));
    let place = Place { store: watched(store, kill), world: World::system(), ledger };
    let env = Env::new(Directory::open(&files)?);
    Ok(serde_json::json!(session::live(Scene { place, env, busy: Duration::from_millis(30) }).await?))
}

async fn kernel(store: Store, directory: &Path, kill: Kill) -> Result<serde_json::Value> {
    let notebook = Notebook::open(&directory.join("notebook"))
        .map_err(|fault| everturn::Error::invalid(format!("open the notebook: {fault}")))?;
    let (at, before) = (kill.clone(), kill.clone());
    let store = operations::told(store, move |moment, operation| at.meet_at(moment, operation.number));
    let store = Store::new(Layered(Torn { store, kill }));
    let outcome = kernel::live(store, &notebook, &|step| before.meet(&Kill::Step(step.into()))).await?;
    Ok(serde_json::json!(outcome))
}

/// A store whose deletions are cut off between the transactions that they are made of.
struct Torn {
    store: Store,
    kill: Kill,
}

impl Layer for Torn {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn delete(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let rings = async {
            // The first answer says only how often it rang before.
            let mut heard = self.store.doorbell(0).await;
            for ring in 1.. {
                heard = self.store.doorbell(heard).await;
                self.kill.meet(&Kill::Ring(ring));
            }
        };
        let delete = self.store.delete(session, owner, epoch);
        tokio::select! {
            biased;
            () = rings => Ok(()),
            deleted = delete => deleted,
        }
    }
}
