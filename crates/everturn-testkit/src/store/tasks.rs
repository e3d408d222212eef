//! Tasks: the present state of each.

use everturn_core::{
    clock::Timestamp,
    id::{Seq, TaskId},
    storage::{ChangeQuery, Store, TaskQuery},
    task::{Blocked, BlockedBy, Signal, TaskFailure, TaskOutcome, TaskRecord, TaskState, WaitPolicy, Woken},
};

use super::scene::{IntoWrite, Scene, json};

fn query(scene: &Scene) -> TaskQuery {
    TaskQuery { session: scene.id(), live: false, ids: None, owner: None }
}

async fn store_all(scene: &mut Scene, tasks: &[TaskRecord]) {
    let writes = tasks.iter().map(|task| task.clone().into_write()).collect();
    scene.commit(writes).await.unwrap();
}

fn end(task: &mut TaskRecord) {
    let output = json(r#"{"ok":true}"#);
    task.end(TaskOutcome::Completed { output }, Timestamp(9));
}

/// A task has one row: where it stands.
pub async fn a_task_is_replaced_as_it_moves(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut task = scene.task();
    store_all(&mut scene, &[task.clone()]).await;
    let (checkpoint, on, policy) = (json("[1, 2]"), vec![TaskId(8)], WaitPolicy::FailFast);
    task.state = TaskState::Waiting { checkpoint, on, policy, joined: true };
    task.memos = [("bank".into(), json("7"))].into();
    task.abort = Some("enough".into());
    store_all(&mut scene, &[task.clone()]).await;
    assert_eq!(store.tasks(query(&scene)).await.unwrap(), [task.clone()]);
    end(&mut task);
    store_all(&mut scene, &[task.clone()]).await;
    assert_eq!(store.tasks(query(&scene)).await.unwrap(), [task]);
}

/// How tasks end, in all ways.
fn every_outcome() -> Vec<TaskOutcome> {
    let error = TaskFailure { detail: Some(json("[ ]")), ..TaskFailure::new("declined", "no credit") };
    let (output, reason) = (Some(json("{ }")), "enough".to_owned());
    vec![
        TaskOutcome::Completed { output: json("0.50") },
        TaskOutcome::Failed { error: error.clone(), output: output.clone() },
        TaskOutcome::Failed { error: TaskFailure::new("declined", "no credit"), output: None },
        TaskOutcome::Aborted { reason: reason.clone(), output },
        TaskOutcome::Aborted { reason: reason.clone(), output: None },
        TaskOutcome::Orphaned { reason },
        TaskOutcome::Faulted { error, output: None },
    ]
}

/// Where tasks stand, everywhere.
fn every_state() -> Vec<TaskState> {
    let checkpoint = || json(r#"{ "b":1.0, "a":[] }"#);
    let (on, until) = (vec![TaskId(8), TaskId(3)], Timestamp(50));
    let waiting =
        |policy, joined| TaskState::Waiting { checkpoint: checkpoint(), on: on.clone(), policy, joined };
    let listening = |until| TaskState::Listening { checkpoint: checkpoint(), signal: "paid".into(), until };
    let mut states = vec![
        TaskState::Ready { checkpoint: None },
        TaskState::Ready { checkpoint: Some(checkpoint()) },
        TaskState::Sleeping { checkpoint: checkpoint(), until },
        waiting(WaitPolicy::AllSettled, false),
        waiting(WaitPolicy::FailFast, true),
        listening(None),
        listening(Some(until)),
    ];
    for outcome in every_outcome() {
        states.extend([TaskState::Completing { outcome: outcome.clone() }, TaskState::Ended { outcome }]);
    }
    states
}

/// Of a task that says as little as it can, one that says all that it can.
fn talkative(task: TaskRecord, blocked: Blocked, woken: Woken) -> TaskRecord {
    let signal = |payload: &str| Signal { name: "paid".into(), payload: json(payload) };
    TaskRecord {
        owner: Some(TaskId(1)),
        background: true,
        abandon_on_restart: true,
        version: u32::MAX,
        input: json(r#"{ "b":1.0, "a":[] }"#),
        memos: [("b".into(), json("null")), ("a".into(), json("[ 1 ]"))].into(),
        signals: vec![signal("1"), signal("1.0")],
        woken: Some(woken),
        attempts: 9,
        blocked: Some(blocked),
        abort: Some("enough".into()),
        ended: Some(Timestamp(-9)),
        ..task
    }
}

/// Whatever a task's record says, it says when it is read, wherever the task stands.
pub async fn a_task_keeps_every_field_of_its_record(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut tasks = Vec::new();
    for state in every_state() {
        tasks.push(TaskRecord { state: state.clone(), ..scene.task() });
        for by in [BlockedBy::Missing, BlockedBy::TooOld, BlockedBy::MigrationFailed] {
            let (needs, message) = (u32::MAX, "it says \"so\"".to_owned());
            let woken = match by {
                BlockedBy::Missing => Woken::TimedOut,
                _ => Woken::Signal(Signal { name: "paid".into(), payload: json("{ }") }),
            };
            let task = TaskRecord { state: state.clone(), ..scene.task() };
            tasks.push(talkative(task, Blocked { by, needs, message }, woken));
        }
    }
    store_all(&mut scene, &tasks).await;
    assert_eq!(store.tasks(query(&scene)).await.unwrap(), tasks);
    let (session, epoch) = (scene.id(), scene.lease.epoch);
    let told = store.changes(ChangeQuery { session, epoch, after: Seq(1), limit: 1 }).await.unwrap();
    assert_eq!(told.commits[0].tasks, tasks, "whoever follows is told the same");
}

/// JSON that is `null` is something: a checkpoint, an output or a detail that is there stays there.
pub async fn a_null_is_not_nothing(store: &Store) {
    let mut scene = Scene::new(store).await;
    let null = || json("null");
    let error = TaskFailure { detail: Some(null()), ..TaskFailure::new("declined", "no credit") };
    let outcomes = [
        TaskOutcome::Completed { output: null() },
        TaskOutcome::Failed { error: error.clone(), output: Some(null()) },
        TaskOutcome::Aborted { reason: "enough".into(), output: Some(null()) },
        TaskOutcome::Faulted { error, output: Some(null()) },
    ];
    let ready = TaskState::Ready { checkpoint: Some(null()) };
    let states = [ready].into_iter().chain(outcomes.map(|outcome| TaskState::Ended { outcome }));
    let tasks: Vec<_> = states.map(|state| TaskRecord { state, ..scene.task() }).collect();
    store_all(&mut scene, &tasks).await;
    assert_eq!(store.tasks(query(&scene)).await.unwrap(), tasks);
}

/// Opening a session asks for its live tasks, and gets no others.
pub async fn live_tasks_are_those_that_have_not_ended(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (mut ended, live) = (scene.task(), scene.task());
    store_all(&mut scene, &[live.clone(), ended.clone()]).await;
    let only_live = TaskQuery { live: true, ..query(&scene) };
    assert_eq!(store.tasks(only_live.clone()).await.unwrap(), [ended.clone(), live.clone()]);
    end(&mut ended);
    store_all(&mut scene, &[ended.clone()]).await;
    assert_eq!(store.tasks(only_live).await.unwrap().as_slice(), std::slice::from_ref(&live));
    assert_eq!(store.tasks(query(&scene)).await.unwrap(), [ended, live]);
}

/// Asked for by id, tasks come as they were asked for; those that are not there are left out.
pub async fn tasks_come_in_the_order_in_which_they_are_asked_for(store: &Store) {
    let mut scene = Scene::new(store).await;
    let tasks = [scene.task(), scene.task(), scene.task()];
    store_all(&mut scene, &tasks).await;
    let by_ids = TaskQuery {
        ids: Some(vec![tasks[2].id, TaskId(99), TaskId(u64::MAX), tasks[0].id]),
        ..query(&scene)
    };
    let [first, _, third] = tasks;
    assert_eq!(store.tasks(by_ids).await.unwrap(), [third, first]);
}

/// A task's children are found by it, live or not.
pub async fn owned_tasks_are_found_by_their_owner(store: &Store) {
    let mut scene = Scene::new(store).await;
    let owner = scene.task();
    let (mut done, mut live) = (scene.task(), scene.task());
    (done.owner, live.owner) = (Some(owner.id), Some(owner.id));
    end(&mut done);
    store_all(&mut scene, &[owner.clone(), done.clone(), live.clone()]).await;
    let owned = TaskQuery { owner: Some(owner.id), ..query(&scene) };
    assert_eq!(store.tasks(owned.clone()).await.unwrap(), [done.clone(), live.clone()]);
    let owned_and_live = TaskQuery { live: true, ..owned };
    assert_eq!(store.tasks(owned_and_live).await.unwrap(), [live]);
}
