//! A payment in two phases. Its key is committed before the bank is asked, so that whoever is killed between charging and
//! saving it asks again under the same key: charged once. The task that has ended is the receipt, typed.
//!
//! With a directory it is one life of the customer, who dies by `abort` once the bank has charged; run again, it ends.
//! Without one it starts lives of its own, until one ends well.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, abort},
};

use everturn::{
    Extension, Harness, SessionSpec, Step, Task, TaskContext, TaskError, TaskHandle, World,
    id::ConversationId,
    storage::TaskQuery,
    store::{self, Options},
};
use serde::{Deserialize, Serialize};

struct Payment(Bank);

#[derive(Serialize, Deserialize)]
enum Phase {
    Prepare,
    Charge { key: String },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: usize,
    cents: u32,
}

impl Task for Payment {
    const NAME: &'static str = "example.payment";
    type Input = u32;
    type State = Phase;
    type Output = Receipt;

    fn start(&self, _: &u32) -> Phase {
        Phase::Prepare
    }

    async fn step(&self, cx: &TaskContext, cents: &u32, phase: Phase) -> Result<Step<Self>, TaskError> {
        match phase {
            Phase::Prepare => Ok(Step::go(Phase::Charge { key: cx.key("charge") })),
            Phase::Charge { key } => {
                let number = self.0.charge(&key, *cents)?;
                if !cx.was_entered() {
                    abort(); // The bank has charged, and nobody has written it down.
                }
                Ok(Step::done(Receipt { number, cents: *cents }))
            }
        }
    }
}

/// A bank: a file that outlives its customers. It charges once for each key.
struct Bank(PathBuf);

impl Bank {
    fn charge(&self, key: &str, cents: u32) -> std::io::Result<usize> {
        let charge = format!("{key} {cents}\n");
        let mut charges = self.charges();
        if !charges.contains(&charge) {
            charges.push(charge);
            fs::write(self.0.with_extension("new"), charges.concat())?;
            fs::rename(self.0.with_extension("new"), &self.0)?;
        }
        Ok(charges.len())
    }

    fn charges(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.split_inclusive('\n').map(str::to_owned).collect()
    }
}

#[tokio::main]
async fn main() -> everturn::Result<()> {
    if let Some(directory) = std::env::args().nth(1) {
        return live(Path::new(&directory)).await;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = std::env::current_exe().expect("this program");
    let life = || Command::new(&program).arg(directory.path()).status().expect("this program runs").code();
    assert_eq!(life(), None, "the first life is killed");
    assert_eq!(Bank(directory.path().join("bank")).charges().len(), 1, "and was charged by then");
    assert_eq!(life(), Some(0), "the second ends well");
    Ok(())
}

/// One life: goes on where the last one was killed.
async fn live(directory: &Path) -> everturn::Result<()> {
    let url = format!("sqlite:{}", directory.join("store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await?;
    let payments = Extension::new("payments").task(Payment(Bank(directory.join("bank"))));
    let harness = Harness::builder(store).install(payments)?.open().await?;
    let spec = SessionSpec { request: Some("the customer".into()), ..SessionSpec::default() };
    let session = harness.create(spec).await?;

    let all = TaskQuery { session: session.id(), live: false, ids: None, owner: None };
    let payment: TaskHandle<Payment> = match session.store().tasks(all).await?.first() {
        Some(begun) => session.task(begun.id),
        None => session.start_task(ConversationId::ROOT, &1_250).await?,
    };
    let receipt = payment.ended().await?.output()?;
    session.close().await?;

    assert_eq!(receipt, Some(Receipt { number: 1, cents: 1_250 }));
    let charges = Bank(directory.join("bank")).charges();
    assert_eq!(charges.len(), 1, "charged once: {charges:?}");
    println!("charged once: {receipt:?}");
    Ok(())
}
