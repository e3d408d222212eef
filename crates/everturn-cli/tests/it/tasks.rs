//! Tasks from the command line: seen, signalled, and left alone where no code can run them.

use everturn::{
    Extension, Harness, LiveSession, SessionSpec, Step, Task, TaskContext, TaskError, World,
    id::{ConversationId, SessionId, TaskId},
    kernel::{NewTask, Session},
    store::{self, Options},
    task::{WaitPolicy, Woken},
};
use serde_json::{Value, json};

use crate::{kill::signal_after, place::Place};

/// Waits for its doors.
struct House;

impl Task for House {
    const NAME: &'static str = "example.house";
    type Input = ();
    type State = Option<TaskId>;
    type Output = ();

    fn start(&self, _: &()) -> Option<TaskId> {
        None
    }

    async fn step(&self, cx: &TaskContext, _: &(), door: Option<TaskId>) -> Result<Step<Self>, TaskError> {
        if door.is_some() {
            return Ok(Step::done(()));
        }
        let mut tx = cx.begin().await?;
        let door = tx.create_task(cx.child::<Door>(&())?)?;
        Ok(Step::wait_tasks([door], WaitPolicy::AllSettled, Some(door)).with(tx))
    }
}

/// Waits for an answer.
struct Door;

impl Task for Door {
    const NAME: &'static str = "example.door";
    type Input = ();
    type State = ();
    type Output = Value;

    fn start(&self, _: &()) {}

    async fn step(&self, cx: &TaskContext, _: &(), _: ()) -> Result<Step<Self>, TaskError> {
        if let Some(Woken::Signal(answer)) = cx.woken_by() {
            return Ok(Step::done(answer.payload.read()?));
        }
        cx.report(&json!({"rang": 3, "text": "\u{1b}[2Jhello"})).await?;
        Ok(Step::wait_signal("answer", ()))
    }
}

/// A session with a house whose door waits for an answer. The command has no code for either.
struct Scene {
    place: Place,
    id: String,
    house: TaskId,
    door: TaskId,
}

impl Scene {
    async fn new() -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path().join(".everturn")).unwrap();
        let harness = harness(&place).await;
        let session = harness.create(SessionSpec::default()).await.unwrap();
        let house = session.start_task::<House>(ConversationId::ROOT, &()).await.unwrap().id();
        session.quiescent().await.unwrap();
        let door = session.inspect().await.unwrap().below(house)[0].record.id;
        session.close().await.unwrap();
        Self { place, id: session.id().to_string(), house, door }
    }

    /// Opens the session with the code.
    async fn open(&self) -> LiveSession {
        let id: SessionId = self.id.parse().unwrap();
        harness(&self.place).await.open_session(id).await.unwrap()
    }

    fn signal(&self, words: &[&str]) -> crate::place::Ran {
        let door = self.door.to_string();
        self.place.run(&[&["signal", &self.id, &door], words].concat())
    }
}

async fn harness(place: &Place) -> Harness {
    let url = format!("sqlite:{}", place.path().join(".everturn/store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await.unwrap();
    let home = Extension::new("home").task(House).task(Door);
    Harness::builder(store).install(home).unwrap().open().await.unwrap()
}

#[tokio::test]
async fn tasks_are_shown_as_a_tree_by_who_does_not_run_them() {
    let scene = Scene::new().await;
    let (house, door) = (scene.house, scene.door);
    // Owned by this process meanwhile: reading takes nothing.
    let session = scene.open().await;
    let shown = scene.place.run(&["tasks", &scene.id]).well();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("{house}  example.house  waiting on {door}"));
    assert!(lines[1].starts_with("    since 20") && lines[1].ends_with(" UTC"), "{shown}");
    assert_eq!(lines[2], format!("  {door}  example.door  listening for answer"));
    assert!(lines[4].contains("says {\"rang\":3") && !lines[4].contains('\u{1b}'), "{shown}");
    assert_eq!(lines.len(), 5, "{shown}");
    assert_eq!(scene.place.run(&["tasks"]).well(), shown, "without an id: the session that was used last");
    session.close().await.unwrap();

    let out = scene.place.run(&["tasks", "--json"]).well();
    let listed: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[1]["owner"], &listed[1]["kind"]), (&json!(house), &json!("example.door")));
    assert_eq!(
        (&listed[1]["status"], &listed[1]["report"]["rang"]),
        (&json!("listening for answer"), &json!(3))
    );
}

#[tokio::test]
async fn a_signal_is_left_once_and_says_what_became_of_it() {
    let scene = Scene::new().await;
    let posted = scene.signal(&["answer", "\"come in\"", "--key", "visit"]).well();
    assert!(posted.starts_with("visit: it waits for whoever runs the session"), "{posted}");
    let again = scene.signal(&["answer", "\"come in\"", "--key", "visit"]).well();
    assert!(again.contains("there already, and waits"), "{again}");

    let session = scene.open().await;
    let ended = session.task::<Door>(scene.door).ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(json!("come in")));
    session.task::<House>(scene.house).ended().await.unwrap();
    session.close().await.unwrap();

    let taken = scene.signal(&["answer", "\"come in\"", "--key", "visit"]).well();
    assert!(taken.contains("has got it"), "{taken}");
    let none = scene.place.run(&["tasks", &scene.id]);
    assert!(none.out.is_empty() && none.err.contains("works on nothing; --all"), "{none:?}");
    let all = scene.place.run(&["tasks", &scene.id, "--all"]).well();
    assert!(all.starts_with(&format!("{}  example.house  completed\n", scene.house)), "{all}");
    assert!(all.contains(&format!("\n  {}  example.door  completed\n", scene.door)), "{all}");
}

#[tokio::test]
async fn a_signal_without_a_key_is_another_one_each_time() {
    let scene = Scene::new().await;
    let (first, second) = (scene.signal(&["answer"]).well(), scene.signal(&["answer", "-1"]).well());
    assert_ne!(first, second);
    let session = scene.open().await;
    let ended = session.task::<Door>(scene.door).ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(Value::Null), "the first one was taken");
    session.close().await.unwrap();
}

// `everturn resume` waited, without a word, for work that it had no code for.
// Guards: it says what it cannot run and why, and ends.
#[tokio::test]
async fn what_no_code_here_can_run_is_named_and_not_waited_for() {
    let scene = Scene::new().await;
    let (id, door) = (&scene.id, scene.door);
    let resumed = scene.place.run(&["resume", id]);
    assert_eq!((resumed.code, &*resumed.out), (Some(0), ""), "{resumed:?}");
    let listens =
        format!("task {door}, example.door: listening for answer (`everturn signal {id} {door} answer`");
    assert!(resumed.err.contains(&listens), "{resumed:?}");

    scene.signal(&["answer", "true"]).well();
    let resumed = scene.place.run(&["resume", id]);
    let why =
        format!("task {door}, example.door: blocked, missing: no code of kind example.door is installed");
    resumed.refused(1, &why);
    resumed.refused(1, "1 task waits for code that this command does not have");
    let shown = scene.place.run(&["tasks", id]).well();
    assert!(shown.contains("blocked, missing: no code of kind example.door is installed"), "{shown}");

    let session = scene.open().await;
    session.task::<House>(scene.house).ended().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(scene.place.run(&["resume", id]).code, Some(0), "it went on where the code was");
}

#[test]
fn a_question_whose_turn_a_newer_version_wrote_is_not_waited_for() {
    let place = Place::new();
    assert!(signal_after(&place, 4, rustix::process::Signal::KILL));
    let database = rusqlite::Connection::open(place.path().join(".everturn/store.db")).unwrap();
    let sql = "SELECT body FROM task WHERE live AND owner IS NULL";
    let body: String = database.query_row(sql, [], |row| row.get(0)).unwrap();
    let newer = body.replacen("\"version\":1", "\"version\":99", 1);
    let sql = "UPDATE task SET body = ?1, crc = ?2 WHERE live AND owner IS NULL";
    assert_eq!(database.execute(sql, (&newer, crc32(newer.as_bytes()))).unwrap(), 1);
    drop(database);
    let id = place.newest();
    let resumed = place.run(&["resume", &id]);
    resumed.refused(1, "et.turn: blocked, too_old: version 99 of et.turn wrote it");
    resumed.refused(1, "not answered yet, and nothing here can go on");
}

/// The checksum of the store's records.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

#[tokio::test]
async fn flags_reasons_and_conversations_are_shown() {
    let place = Place::new();
    std::fs::create_dir(place.path().join(".everturn")).unwrap();
    let harness = harness(&place).await;
    let session = Session::create(harness.opener(), Default::default()).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let kept = NewTask {
        background: true,
        abandon_on_restart: true,
        ..NewTask::of::<Door>(ConversationId::ROOT, &()).unwrap()
    };
    let kept = tx.create_task(kept).unwrap();
    let inner = tx.create_conversation(everturn::conversation::Ownership::Task(kept));
    let below = tx.create_task(NewTask::of::<Door>(inner, &()).unwrap()).unwrap();
    tx.abort_task(below, "never\u{7} mind", Default::default()).await.unwrap();
    tx.commit().await.unwrap();
    session.close().await.unwrap();
    let shown = place.run(&["tasks", &session.id().to_string()]).well();
    for part in [
        format!("{kept}  example.door  ready\n"),
        format!(", in the background, abandoned on restart, owns conversation {inner}\n"),
        format!("\n  {below}  example.door  stopping\n"),
        format!("in conversation {inner}\n"),
        "told to stop: never\u{fffd} mind\n".into(),
    ] {
        assert!(shown.contains(&part), "{part:?} is not in {shown}");
    }
}

#[tokio::test]
async fn a_signal_for_a_task_that_is_not_there_is_refused() {
    let scene = Scene::new().await;
    scene.place.run(&["signal", &scene.id, "99999", "answer"]).refused(3, "has no such task");
}

#[test]
fn a_signal_for_a_session_that_is_not_there_is_refused() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let nobody = "0198c0de-0000-7000-8000-000000000000";
    place.run(&["signal", nobody, "2", "answer"]).refused(3, nobody);
    place.run(&["tasks", nobody]).refused(3, nobody);
}

#[test]
fn a_store_without_sessions_has_no_tasks_to_show() {
    let place = Place::new();
    place.run(&["tasks"]).refused(3, "there is no such file");
}

#[test]
fn a_signal_for_a_task_that_has_ended_is_refused() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let all = place.run(&["tasks", "--all", "--json"]).well();
    let turn: Value = serde_json::from_str(all.lines().next().unwrap()).unwrap();
    let turn = turn["task"].to_string();
    place.run(&["signal", &place.newest(), &turn, "answer"]).refused(1, "it has ended, completed");
}

#[tokio::test]
async fn a_signal_that_is_no_json_is_refused() {
    let scene = Scene::new().await;
    scene.signal(&["answer", "come in"]).refused(2, "text is written in quotes");
}

#[tokio::test]
async fn a_signal_without_a_name_is_refused() {
    let scene = Scene::new().await;
    scene.signal(&[""]).refused(2, "the name of a signal");
}

#[tokio::test]
async fn a_signal_under_an_empty_key_is_refused() {
    let scene = Scene::new().await;
    scene.signal(&["answer", "--key", ""]).refused(2, "the key of mail");
}

#[tokio::test]
async fn a_signal_under_the_key_of_another_is_refused() {
    let scene = Scene::new().await;
    scene.signal(&["answer", "1", "--key", "visit"]).well();
    scene.signal(&["answer", "2", "--key", "visit"]).refused(1, "the key of other mail");
}

#[tokio::test]
async fn a_task_that_is_no_number_is_refused() {
    let scene = Scene::new().await;
    scene.place.run(&["signal", &scene.id, "door", "answer"]).refused(2, "not a number");
}
