//! Workers that share a file: all that wants to run does, once, whoever of them dies.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use everturn::{
    CancelToken, Harness, NewTask, SessionReader, SessionSpec, Worker, WorkerSettings, World,
    id::{ConversationId, SessionId},
    store::{self, Options},
};
use everturn_worlds::tasks::{Ledger, Line, Order, Pay, Tick, Ticker, workshop};

use super::check_kept;

const SESSIONS: usize = 20;

struct Shop(tempfile::TempDir);

impl Shop {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("store.db")
    }

    fn ledger(&self) -> PathBuf {
        self.0.path().join("ledger")
    }

    /// A harness over the file, of an owner of its own.
    async fn harness(&self) -> Harness {
        let url = format!("sqlite:{}", self.file().display());
        let store = store::open(&url, Options::new(World::system().owner())).await.unwrap();
        let code = workshop(&Arc::new(Ledger::open(&self.ledger())));
        Harness::builder(store).install(code).unwrap().open().await.unwrap()
    }

    /// Sessions with a ticker and a payment each, that nobody has open.
    async fn sessions(&self, harness: &Harness) -> Vec<SessionId> {
        let mut sessions = Vec::new();
        for number in 0..SESSIONS {
            let session = harness.create(SessionSpec::default()).await.unwrap();
            let mut tx = session.begin().await.unwrap();
            // Some are sleepier than others.
            let tick = NewTask::of::<Tick>(ConversationId::ROOT, &(number as u64 * 2 + 1)).unwrap();
            let order = Order { amount: 1, before_ms: 20, ..Order::default() };
            tx.create_task(tick).unwrap();
            tx.create_task(NewTask::of::<Pay>(ConversationId::ROOT, &order).unwrap()).unwrap();
            tx.commit().await.unwrap();
            sessions.push(session.id());
            session.close().await.unwrap();
        }
        sessions
    }

    /// Waits until no session has work, or the ledger is as wanted.
    async fn until(&self, harness: &Harness, sessions: &[SessionId], wanted: impl Fn(&Ledger) -> bool) {
        let (store, clock) = (&harness.opener().store, &harness.opener().world.clock);
        let (mut heard, ledger) = (0, Ledger::open(&self.ledger()));
        loop {
            let mut is_working = false;
            for id in sessions {
                let reader = SessionReader::open(store.clone(), *id).await.unwrap();
                is_working |= reader.is_working().await.unwrap();
            }
            if !is_working || wanted(&ledger) {
                return;
            }
            // The doorbell may be missed.
            tokio::select! {
                rung = store.doorbell(heard) => heard = rung,
                () = clock.sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    /// All is done, and was done once; but for what a killed worker had begun.
    async fn check(&self, harness: &Harness, sessions: &[SessionId], was_killed: bool) {
        for id in sessions {
            assert_eq!(harness.verify(*id).await.unwrap(), []);
        }
        let ledger = Ledger::open(&self.ledger());
        check_kept(&ledger, "workers");
        assert_eq!(ledger.charges(), vec![1; SESSIONS]);
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        ledger.did().into_iter().for_each(|what| *times.entry(what).or_default() += 1);
        assert_eq!(times.len(), SESSIONS * usize::try_from(Ticker::TICKS).unwrap());
        let asked = ledger.lines().iter().filter(|line| matches!(line, Line::Asked(_))).count();
        if !was_killed {
            assert_eq!(times.values().max(), Some(&1), "{times:?}");
            assert_eq!(asked, SESSIONS, "the bank was asked once for each");
        }
        assert!(times.values().all(|times| *times <= 2), "{times:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_on_one_file_end_all_sessions_and_do_nothing_twice() {
    let shop = Shop::new();
    let harness = shop.harness().await;
    let sessions = shop.sessions(&harness).await;
    let stop = CancelToken::new();
    let mut workers = Vec::new();
    for _ in 0..2 {
        let (harness, stop) = (shop.harness().await, stop.clone());
        let settings = WorkerSettings { poll_ms: 100, sessions_max: 6 };
        workers.push(tokio::spawn(async move { Worker::new(harness, settings).run(&stop).await }));
    }
    shop.until(&harness, &sessions, |_| false).await;
    stop.cancel();
    for worker in workers {
        worker.await.unwrap().unwrap();
    }
    shop.check(&harness, &sessions, false).await;
}

/// A process that works. It dies with the test.
struct Process(Child);

impl Process {
    fn start(shop: &Shop) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        let command = command.arg(shop.file()).arg(shop.ledger());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("works "), "{line}");
        Self(child)
    }

    fn kill(&mut self) {
        // It may have ended by itself.
        let _gone = self.0.kill();
        let _waited = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_leaves_its_sessions_to_another() {
    let shop = Shop::new();
    let harness = shop.harness().await;
    let sessions = shop.sessions(&harness).await;
    let (mut first, _second) = (Process::start(&shop), Process::start(&shop));
    shop.until(&harness, &sessions, |ledger| ledger.did().len() > 2 * SESSIONS).await;
    let left = SESSIONS * 5 - Ledger::open(&shop.ledger()).did().len();
    assert!(left > 0, "there was more to do when it was killed");
    first.kill();
    shop.until(&harness, &sessions, |_| false).await;
    shop.check(&harness, &sessions, true).await;
}
