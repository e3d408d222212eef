//! Four payments below a checkout, one of them declined: the checkout fails fast, so the others are told to stop, give the
//! money back, and the checkout says whose card it was. Meanwhile `session.inspect()` shows who waits for what.
//!
//! With a directory it lives there: killed at any moment and run again, it comes to the same end.

use std::{fs, io, path::PathBuf};

use everturn::{
    Extension, Harness, LiveSession, SessionSpec, Step, Task, TaskContext, TaskError, TaskHandle, World,
    id::{ConversationId, TaskId},
    json::RawJson,
    storage::TaskQuery,
    store::{self, Options},
    task::{Aborted, Remains, Signal, Status, TaskFailure, TaskOutcome, TaskRecord, WaitPolicy, Woken},
};

const CARDS: [&str; 4] = ["ada", "ben", "cleo", "dan"];

struct Checkout;

impl Task for Checkout {
    const NAME: &'static str = "example.checkout";
    type Input = ();
    /// The payments, once they are there.
    type State = Vec<TaskId>;
    type Output = ();

    fn start(&self, _: &()) -> Vec<TaskId> {
        Vec::new()
    }

    async fn step(&self, cx: &TaskContext, _: &(), paid: Vec<TaskId>) -> Result<Step<Self>, TaskError> {
        if paid.is_empty() {
            // All four and the wait for them are one commit.
            let mut tx = cx.begin().await?;
            let payment = |card: &str| tx.create_task(cx.child::<Payment>(&card.into())?);
            let payments = CARDS.into_iter().map(payment).collect::<everturn::Result<Vec<_>>>()?;
            return Ok(Step::wait_tasks(payments.clone(), WaitPolicy::FailFast, payments).with(tx));
        }
        for (payment, card) in paid.into_iter().zip(CARDS) {
            if let Some(TaskOutcome::Failed { error, .. }) = cx.outcome(payment).await? {
                return Ok(Step::fail(TaskFailure::new(error.kind, format!("the card of {card}"))));
            }
        }
        Ok(Step::done(()))
    }
}

struct Payment(Bank);

impl Task for Payment {
    const NAME: &'static str = "example.payment";
    type Input = String;
    /// Whether the bank was asked.
    type State = bool;
    type Output = String;

    fn start(&self, _: &String) -> bool {
        false
    }

    async fn step(&self, cx: &TaskContext, card: &String, asked: bool) -> Result<Step<Self>, TaskError> {
        if !asked {
            self.0.book(&format!("{card} pays"))?;
            return Ok(Step::wait_signal("answer", true));
        }
        match cx.woken_by() {
            Some(Woken::Signal(answer)) if answer.payload.read()? => Ok(Step::done("paid".into())),
            _ => Ok(Step::fail(TaskFailure::new("declined", "the bank said no"))),
        }
    }

    async fn abort(&self, _: &TaskContext, card: &String, _: bool) -> Result<Aborted<Self>, TaskError> {
        self.0.book(&format!("{card} is refunded"))?;
        Ok(Remains::output("refunded".into()))
    }
}

#[tokio::main]
async fn main() -> everturn::Result<()> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let directory = std::env::args().nth(1).map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let url = format!("sqlite:{}", directory.join("store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await?;
    let shop = Extension::new("shop").task(Checkout).task(Payment(Bank(directory.join("bank"))));
    let harness = Harness::builder(store).install(shop)?.open().await?;
    let spec = SessionSpec { request: Some("the shop".into()), ..SessionSpec::default() };
    let session = harness.create(spec).await?;
    let checkout: TaskHandle<Checkout> = match tasks(&session).await?.first() {
        Some(begun) => session.task(begun.id),
        None => session.start_task(ConversationId::ROOT, &()).await?,
    };

    // All that lives waits. Where nothing lives, an earlier life had come further before it was killed.
    session.quiescent().await?;
    let graph = session.inspect().await?;
    if let Some(top) = graph.task(checkout.id()) {
        let payments = graph.below(checkout.id());
        let ids: Vec<_> = payments.iter().map(|payment| payment.record.id).collect();
        assert_eq!(top.status, Status::Waiting { on: ids });
        assert!(payments.iter().all(|payment| payment.status.to_string() == "listening for answer"));
        let no = Signal { name: "answer".into(), payload: RawJson::of(&false)? };
        session.signal(payments[2].record.id, no).await?;
    }

    let outcome = checkout.ended().await?.outcome().to_string();
    assert_eq!(outcome, "failed (declined: the card of cleo)");
    let ends = tasks(&session).await?.into_iter().map(|task| task.outcome().map(TaskOutcome::word));
    assert!(ends.skip(1).flatten().eq(["aborted", "aborted", "failed", "aborted"]));
    let booked = Bank(directory.join("bank")).lines().join(", ");
    let expected =
        "ada is refunded, ada pays, ben is refunded, ben pays, cleo pays, dan is refunded, dan pays";
    assert_eq!(booked, expected);
    session.close().await?;
    println!("{outcome}; {booked}");
    Ok(())
}

/// All tasks of the session, ended or not: the checkout, and what is below it.
async fn tasks(session: &LiveSession) -> everturn::Result<Vec<TaskRecord>> {
    let all = TaskQuery { session: session.id(), live: false, ids: None, owner: None };
    session.store().tasks(all).await
}

/// A bank: it books each line once.
struct Bank(PathBuf);

impl Bank {
    fn book(&self, line: &str) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        fs::write(self.0.join(line), "")
    }

    fn lines(&self) -> Vec<String> {
        let lines = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut lines: Vec<String> = lines.map(|line| line.file_name().to_string_lossy().into()).collect();
        lines.sort();
        lines
    }
}
