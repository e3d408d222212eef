//! Tasks: the present state of each.

use everturn_core::{
    clock::Timestamp,
    id::TaskId,
    storage::{Store, TaskQuery},
    task::{TaskOutcome, TaskRecord, TaskState, WaitPolicy},
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
    let by_ids = TaskQuery { ids: Some(vec![tasks[2].id, TaskId(99), tasks[0].id]), ..query(&scene) };
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
