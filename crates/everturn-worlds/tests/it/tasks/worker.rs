//! One worker, and what it is like to its store and to the sessions that it has open.

use std::{sync::Arc, time::Duration};

use everturn::{
    CancelToken, Error, Extension, Harness, NewTask, Result, SessionSpec, Step, Task, TaskContext, TaskError,
    Worker, WorkerSettings,
    clock::Clock,
    id::{ConversationId, SessionId},
};
use everturn_testkit::faulty::Faults;
use everturn_worlds::tasks::Place;

use super::World;

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
