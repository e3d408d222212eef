//! One worker, and what it is like to its store and to the sessions that it has open.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use everturn::{
    CancelToken, Error, Extension, Harness, NewTask, Result, SessionSpec, Settings, Step, Task, TaskContext,
    TaskError, Worker, WorkerSettings,
    clock::Clock,
    id::{ConversationId, Epoch, SessionId},
    json::RawJson,
    storage::{Claim, Layer, Layered, Lease, Mail, MailKind, Store, TaskQuery},
    task::TaskState,
};
use everturn_testkit::{faulty::Faults, slow};
use everturn_worlds::tasks::{Listen, Order, Pay, Place, Scenario, Stranger, Tick, workshop};

use super::{Count, Stop, Stopping, World, check_kept, opened, stops};

/// A task that sleeps for a second, and then thinks for long.
struct Ponder(Arc<dyn Clock>);

const THOUGHT: Duration = Duration::from_secs(60);

impl Task for Ponder {
    const NAME: &'static str = "worlds.ponder";
    type Input = ();
    type State = bool;
    type Output = ();

    fn start(&self, (): &()) -> bool {
        false
    }

    async fn step(&self, cx: &TaskContext, (): &(), has_slept: bool) -> Result<Step<Self>, TaskError> {
        if !has_slept {
            return Ok(Step::sleep(cx.now() + Duration::from_secs(1), true));
        }
        tokio::select! {
            () = self.0.sleep(THOUGHT) => Ok(Step::done(())),
            () = cx.cancel().cancelled() => Err(Error::closed("it was told to stop").into()),
        }
    }
}

async fn harness(place: &Place) -> Result<Harness> {
    let code = Extension::new("heads").task(Ponder(place.world.clock.clone()));
    Harness::builder(place.store.clone()).world(place.world.clone()).install(code)?.open().await
}

/// Sessions with a task each, that nobody has open.
async fn sessions(harness: &Harness, count: usize) -> Result<Vec<SessionId>> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = harness.create(SessionSpec::default()).await?;
        let mut tx = session.begin().await?;
        tx.create_task(NewTask::of::<Ponder>(ConversationId::ROOT, &())?)?;
        tx.commit().await?;
        sessions.push(session.id());
        session.close().await?;
    }
    Ok(sessions)
}

/// Waits until no session has work.
async fn until_done(harness: &Harness, sessions: &[SessionId]) -> Result<()> {
    for id in sessions {
        while harness.reader(*id).await?.is_working().await? {
            harness.opener().world.clock.sleep(Duration::from_secs(1)).await;
        }
    }
    Ok(())
}

fn start(harness: &Harness, stop: &CancelToken) -> tokio::task::JoinHandle<Result<()>> {
    let (worker, stop) = (Worker::new(harness.clone(), WorkerSettings::default()), stop.clone());
    tokio::spawn(async move { worker.run(&stop).await })
}

// A worker asked the store without a pause while a task ran whose moment had come: the moment stays until the task moves.
// Guards that it asks as often as it polls.
#[test]
fn a_worker_does_not_ask_all_the_time_while_a_task_runs_whose_moment_has_come() {
    let world = World::with(|store| {
        let asked = |name, count| {
            assert!(name != "runnable" || count < 100, "the store was asked {count} times what can run");
            false
        };
        Faults::when(asked).around(store)
    });
    let done = world.life(None, |place| async move {
        let (harness, stop) = (harness(&place).await?, CancelToken::new());
        let sessions = sessions(&harness, 1).await?;
        let worker = start(&harness, &stop);
        tokio::select! {
            done = until_done(&harness, &sessions) => done?,
            () = place.world.clock.sleep(10 * THOUGHT) => return Err(Error::invalid("it is never done")),
        }
        stop.cancel();
        worker.await.expect("a worker does not panic")
    });
    assert_eq!(done, Some(()));
}

// A worker ended when a session that it had open was deleted by who owned it after it: there is nothing to give up then.
// Guards that what becomes of one session is nothing to the others.
#[test]
fn a_worker_goes_on_when_a_session_was_taken_from_it_and_deleted() {
    let world = World::new();
    let done = world.life(None, |place| async move {
        let (ours, stop) = (harness(&place).await?, CancelToken::new());
        let sessions = sessions(&ours, 2).await?;
        let worker = start(&ours, &stop);
        place.world.clock.sleep(Duration::from_secs(20)).await;
        // Its lease is lost, as if it had not been heard of for long.
        let row = place.store.session(sessions[0]).await?.expect("it is there");
        let (owner, _) = row.owner.expect("the worker has it open");
        place.store.release(row.id, owner, row.epoch).await?;
        harness(&place).await?.open_session(row.id).await?.delete().await?;
        tokio::select! {
            done = until_done(&ours, &sessions[1..]) => done?,
            () = place.world.clock.sleep(10 * THOUGHT) => return Err(Error::invalid("it is never done")),
        }
        stop.cancel();
        worker.await.expect("a worker does not panic")
    });
    assert_eq!(done, Some(()));
}

/// A task that does not hear that it should stop.
struct Deaf(Arc<dyn Clock>);

impl Task for Deaf {
    const NAME: &'static str = "worlds.deaf";
    type Input = ();
    type State = ();
    type Output = ();

    fn start(&self, (): &()) {}

    async fn step(&self, _: &TaskContext, (): &(), (): ()) -> Result<Step<Self>, TaskError> {
        self.0.sleep(Duration::from_secs(3_600)).await;
        Ok(Step::done(()))
    }
}

#[test]
fn a_worker_that_is_told_to_stop_waits_once_for_all_code_that_does_not() {
    const GRACE: Duration = Duration::from_secs(2);
    let took = World::new().life(None, |place| async move {
        let (clock, stop) = (place.world.clock.clone(), CancelToken::new());
        let code = Extension::new("heads").task(Deaf(clock.clone()));
        let builder = Harness::builder(place.store.clone()).world(place.world.clone()).install(code)?;
        let settings = Settings { grace_ms: 2_000, ..Settings::default() };
        let harness = builder.settings(settings).open().await?;
        for _ in 0..8 {
            let session = harness.create(SessionSpec::default()).await?;
            let mut tx = session.begin().await?;
            tx.create_task(NewTask::of::<Deaf>(ConversationId::ROOT, &())?)?;
            tx.commit().await?;
            session.close().await?;
        }
        let worker = start(&harness, &stop);
        clock.sleep(Duration::from_secs(5)).await;
        let told = clock.now();
        stop.cancel();
        worker.await.expect("a worker does not panic")?;
        Ok(clock.now().since(told))
    });
    assert_eq!(took, Some(GRACE));
}

/// A store whose leases are not renewed: its owner has stopped, or the road to it is cut.
struct Unrenewed(Store);

impl Layer for Unrenewed {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn renew(&self, _: Claim, _: Epoch) -> Result<Lease> {
        std::future::pending().await
    }
}

#[test]
fn a_worker_whose_leases_run_out_is_followed_by_another_and_ends_nothing_twice() {
    let world = World::new();
    let done = world.life(None, |place| async move {
        let (clock, stop) = (place.world.clock.clone(), CancelToken::new());
        let store = Store::new(Layered(Unrenewed(place.store.clone())));
        let cut_off = harness(&Place { store, ..place.clone() }).await?;
        let other = harness(&place).await?;
        let sessions = sessions(&other, 8).await?;
        let first = start(&cut_off, &stop);
        clock.sleep(Duration::from_secs(5)).await;
        let second = start(&other, &stop);
        tokio::select! {
            done = until_done(&other, &sessions) => done?,
            () = clock.sleep(20 * THOUGHT) => return Err(Error::invalid("it is never done")),
        }
        let mut is_passed_on = false;
        for id in &sessions {
            assert_eq!(other.verify(*id).await?, []);
            let row = place.store.session(*id).await?.expect("it is there");
            let query = TaskQuery { session: *id, live: false, ids: None, owner: None };
            let tasks = place.store.tasks(query).await?;
            let outcomes: Vec<_> = tasks.iter().filter_map(|task| task.outcome()).collect();
            assert!(outcomes.iter().all(|outcome| outcome.is_completed()), "{outcomes:?}");
            is_passed_on |= row.epoch > Epoch(3);
        }
        // What was created, run to its sleep, and run by the first, went on to the second.
        assert!(is_passed_on, "a session changed hands");
        stop.cancel();
        for worker in [first, second] {
            worker.await.expect("a worker does not panic")?;
        }
        Ok(())
    });
    assert_eq!(done, Some(()));
}

#[test]
fn a_worker_opens_a_session_for_its_mail() {
    let world = World::new();
    let rests = world.life(None, |place| async move {
        let life = opened(Listen(Stranger::Silent), place).await?;
        life.session.quiescent().await?;
        // It sleeps for a second, and then it listens.
        life.place.world.clock.sleep(Duration::from_secs(2)).await;
        life.session.quiescent().await?;
        let task = life.tasks().await?.remove(0);
        life.session.close().await?;
        Ok((life.session.id(), task))
    });
    let (session, task) = rests.unwrap();
    assert!(matches!(task.state, TaskState::Listening { .. }), "{task:?}");
    let heard = world.life(None, move |place| async move {
        let (clock, stop) = (place.world.clock.clone(), CancelToken::new());
        let code = Listen(Stranger::Silent).code(&place.ledger);
        let builder = Harness::builder(place.store.clone()).world(place.world.clone()).install(code)?;
        let harness = builder.open().await?;
        let worker = start(&harness, &stop);
        clock.sleep(Duration::from_secs(5)).await;
        let body = serde_json::json!({"task": task.id, "name": "paid", "payload": 12});
        let mail = Mail {
            session,
            key: "paid 1".into(),
            kind: MailKind::Signal,
            conversation: None,
            request: None,
            actor: "stranger".into(),
            time: clock.now(),
            body: RawJson::of(&body)?,
        };
        harness.opener().post(mail).await?;
        clock.sleep(Duration::from_secs(2)).await;
        stop.cancel();
        worker.await.expect("a worker does not panic")?;
        Ok(place.ledger.did())
    });
    assert_eq!(heard.unwrap(), ["paid 12"]);
}

/// A harness that runs tickers and payments.
async fn shop(place: &Place, store: Store) -> Result<Harness> {
    let builder = Harness::builder(store).world(place.world.clone()).install(workshop(&place.ledger))?;
    builder.open().await
}

/// Two workers, of which the first stands still at an operation: from then on the store does not hear of it.
async fn stand_still(place: Place, stop: Stop) -> Result<bool> {
    let (clock, stopped) = (place.world.clock.clone(), CancelToken::new());
    let owner = shop(&place, place.store.clone()).await?;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let session = owner.create(SessionSpec::default()).await?;
        let mut tx = session.begin().await?;
        tx.create_task(NewTask::of::<Tick>(ConversationId::ROOT, &1_000)?)?;
        let order = Order { amount: 1, before_ms: 500, after_ms: 2_500, ..Order::default() };
        tx.create_task(NewTask::of::<Pay>(ConversationId::ROOT, &order)?)?;
        tx.commit().await?;
        sessions.push(session.id());
        session.close().await?;
    }
    let count = AtomicU64::new(0);
    let stopping = Stopping { store: place.store.clone(), stop: Some(stop), count, stopped: stopped.clone() };
    let stop = CancelToken::new();
    let first = tokio::spawn({
        let (place, stop) = (place.clone(), stop.clone());
        async move {
            let harness = shop(&place, Store::new(Layered(stopping))).await?;
            Worker::new(harness, WorkerSettings::default()).run(&stop).await
        }
    });
    let second = start(&owner, &stop);
    tokio::select! {
        done = until_done(&owner, &sessions) => done?,
        () = clock.sleep(Duration::from_secs(3_600)) => return Err(Error::invalid("it is never done")),
    }
    for id in &sessions {
        assert_eq!(owner.verify(*id).await?, []);
    }
    stop.cancel();
    second.await.expect("a worker does not panic")?;
    first.abort();
    Ok(stopped.is_cancelled())
}

#[test]
fn a_worker_that_stands_still_anywhere_is_followed_by_another() {
    let mut worlds = 0;
    for (seed, stop) in (0..).zip(stops(Count::All).step_by(11)).take(30) {
        let world = World::with(move |store| slow::around(store, seed));
        let stood_still = world.life(None, |place| stand_still(place, stop)).unwrap();
        check_kept(&world.ledger, &format!("{stop:?}"));
        assert_eq!(world.ledger.charges(), [1; 5], "{stop:?}");
        let mut did = world.ledger.did();
        did.sort();
        did.dedup();
        assert_eq!(did.len(), 25, "{stop:?}");
        worlds += usize::from(stood_still);
    }
    println!("{worlds} worlds with a worker that stands still");
    assert!(worlds > 20, "{worlds} worlds");
}
