//! A live session over a directory. Shows: streamed, branched, reopened, accounted.
//!
//! With the scripted model (the default) everything is asserted to the letter. With any other, asserted is what the
//! harness guarantees, and printed what only the model decides:
//!
//! ```text
//! cargo run --example b_session_live -- --model demo
//! cargo run --example b_session_live -- --model chat/NAME@http://127.0.0.1:8080/v1
//! ```

use everturn::{
    Answer, Branch, CancelToken, Error, Event, EventKind, Extension, Harness, Input, LiveSession, Models,
    Result, SessionSpec, SystemClock, TurnEnd, TurnView, World,
    env::Env,
    id::{SessionId, TaskId},
    model::ModelRef,
    models::{Chat, ChatConfig, Demo},
    store, tools,
    usage::Total,
};
use everturn_testkit::{
    recorded::Recorded,
    scripted::{Reply, Scripted},
};
use std::{path::Path, sync::Arc, time::Duration};

/// What stands under src/: a file, its only function, and the number that it returns.
const FILES: [(&str, &str, u32); 3] =
    [("pond", "frogs", 3), ("sea", "deep_m", 10_935), ("sky", "moon_km", 384_400)];
const FIRST: &str =
    "Read all files under src/ and say in one sentence: which function returns the largest number?";
const LARGEST: [&str; 2] = ["It is moon_km in src/sky.rs, ", "with 384400."];

/// What outlives a restart: a place for the store, a directory to work in, and a model to ask.
struct Scene {
    url: String,
    root: String,
    reference: ModelRef,
    model: Recorded,
    /// The scripted answer goes on when this opens.
    gate: CancelToken,
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let scene = Scene::new(directory.path(), reference()?)?;
    let mut spec = SessionSpec::model(scene.reference.clone());
    spec.agent.directory = Some(scene.root.clone());
    let session = scene.open().await?.create(spec).await?;

    let first = streamed(&scene, &session).await?;
    branched(&session, first).await?;
    let (id, history) = (session.id(), session.history().await?);
    drop(session);
    let session = reopened(&scene, id, &history).await?;
    accounted(&scene, &session).await
}

/// Streamed: turn one reads the files with the built-in tools, and its answer is seen while it is made.
async fn streamed(scene: &Scene, session: &LiveSession) -> Result<TaskId> {
    let clock = World::system().clock;
    let begun = clock.now();
    let asked = session.current().await?.submit(Input::text(FIRST)).await?;
    let (mut deltas, mut read) = (Vec::new(), String::new());
    let mut events = asked.events();
    while let Some(event) = events.next().await {
        let Event { cursor, kind } = event?;
        if let EventKind::Text { step, attempt, delta } = kind {
            if deltas.is_empty() {
                println!("streamed:  first words after {:?}", clock.now().since(begun));
            }
            deltas.push(((step, attempt), cursor.seq, delta));
            // The script's answer waits for this: if its text came only with its end, there would be no end.
            if step == 3 {
                scene.gate.cancel();
            }
        } else if let EventKind::CallEnded { text, .. } = kind {
            read += &text;
        }
    }
    let answer = answered(asked.answer().await?)?;
    let turn = session.history().await?.pop().expect("a turn");
    let reply = turn.record.reply.expect("an entry of the answer");
    let end = session.entry(turn.conversation, reply).await?.seq;

    // The deltas of the last attempt, joined, are the answer.
    let total = deltas.len();
    let last = deltas.last().map(|delta| delta.0);
    deltas.retain(|delta| Some(delta.0) == last);
    let joined: String = deltas.iter().map(|delta| &*delta.2).collect();
    assert_eq!(joined, answer.text);

    let early = deltas.iter().filter(|delta| delta.1 < end).count();
    let seen = FILES.iter().filter(|file| read.contains(file.1)).count();
    if scene.is_scripted() {
        assert!(total > 1 && early > 0);
        assert_eq!((seen, answer.steps), (FILES.len(), 3));
        assert_eq!(answer.text, LARGEST.concat());
    }
    println!("           {}", answer.text);
    println!("           {total} deltas, {early} before the last step had ended; {seen} of 3 files read");
    Ok(turn.record.turn)
}

/// Branched: back to turn one, and another second turn.
async fn branched(session: &LiveSession, first: TaskId) -> Result<()> {
    ask(session, "How many files are under src/?").await?;
    let abandoned = session.history().await?.pop().expect("a turn");

    session.branch_from(first, Branch::default()).await?;
    let second = ask(session, "Which files are under src/?").await?.turn;
    let path = session.history().await?;
    let path: Vec<_> = path.iter().map(|view| Some(view.record.turn)).collect();
    assert_eq!(path, [Some(first), second]);

    let turns = session.turns().await?;
    assert!(turns.len() == 3 && turns.contains(&abandoned));
    assert_eq!(abandoned.record.outcome, TurnEnd::Answered);
    println!("branched:  2 turns on the path, 3 in the session");
    Ok(())
}

/// Reopened: everything was dropped, and the id alone brings it back.
async fn reopened(scene: &Scene, id: SessionId, history: &[TurnView]) -> Result<LiveSession> {
    let session = scene.open().await?.open_session(id).await?;
    let directory = session.current().await?.agent().await?.directory;
    assert_eq!(directory.as_ref(), Some(&scene.root));
    assert_eq!(session.history().await?, history);

    let answer = ask(&session, "What was my first question?").await?;
    let request = scene.model.requests().pop().expect("a request");
    assert_eq!(request.texts().first().map(String::as_str), Some(FIRST));
    if scene.is_scripted() {
        assert_eq!(answer.text, format!("You asked: {FIRST}"));
    }
    println!("reopened:  {}", answer.text);
    Ok(session)
}

/// Accounted: what the store says the turns cost is what the model said they cost.
async fn accounted(scene: &Scene, session: &LiveSession) -> Result<()> {
    let reported = scene.model.usage();
    let mut rest = &reported[..];
    for TurnView { record, .. } in session.turns().await? {
        let requests = usize::try_from(record.total.requests).expect("a few");
        let (its, later) = rest.split_at(requests);
        assert_eq!(record.total, its.iter().collect(), "turn {}", record.turn);
        rest = later;
    }
    assert!(rest.is_empty(), "each request belongs to a turn");

    let total: Total = session.usage().await?.iter().collect();
    assert_eq!(total, reported.iter().collect());
    let (input, output) = (total.usage.input, total.usage.output);
    if scene.is_scripted() {
        assert_eq!((input, output), (Some(1_670), Some(97)));
    }
    let [input, output] = [input, output].map(Option::unwrap_or_default);
    println!("accounted: {} requests, {input} tokens in, {output} out", total.requests);
    Ok(())
}

async fn ask(session: &LiveSession, what: &str) -> Result<Answer> {
    let asked = session.current().await?.submit(Input::text(what)).await?;
    answered(asked.answer().await?)
}

fn answered(answer: Answer) -> Result<Answer> {
    match answer.error() {
        Some(error) => Err(Error::invalid(format!("ask the model: {error}"))),
        None => Ok(answer),
    }
}

/// The model that the command line names.
fn reference() -> Result<ModelRef> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => "scripted".parse(),
        ["--model", model] => model.parse(),
        _ => Err(Error::invalid("usage: b_session_live [--model REF]")),
    }
}

impl Scene {
    fn new(directory: &Path, reference: ModelRef) -> Result<Self> {
        let root = directory.join("project");
        std::fs::create_dir_all(root.join("src")).expect("a directory for sources");
        for (file, name, number) in FILES {
            let text = format!("pub fn {name}() -> u32 {{\n    {number}\n}}\n");
            std::fs::write(root.join(format!("src/{file}.rs")), text).expect("a source file");
        }
        let gate = CancelToken::new();
        Ok(Self {
            url: format!("sqlite:{}", directory.join("sessions.db").display()),
            root: root.display().to_string(),
            model: model(&reference, &gate)?,
            reference,
            gate,
        })
    }

    /// A harness over a new connection to the store.
    async fn open(&self) -> Result<Harness> {
        let store = store::open(&self.url, store::Options::new(World::system().owner())).await?;
        Harness::builder(store)
            .models(Models::new().provider(&self.reference.provider, self.model.clone()))
            .install(Extension::new("coding").tools(tools::coding()))?
            .env(|agent| {
                let root = agent.directory.as_deref();
                let root = root.ok_or_else(|| Error::invalid("work without a directory"))?;
                Ok(Env::new(tools::Directory::open(Path::new(root))?))
            })
            .open()
            .await
    }

    fn is_scripted(&self) -> bool {
        self.reference.provider == "scripted"
    }
}

fn model(reference: &ModelRef, gate: &CancelToken) -> Result<Recorded> {
    let clock = Arc::new(SystemClock);
    match (reference.provider.as_str(), &reference.endpoint) {
        ("scripted", _) => Ok(Recorded::new(script(gate))),
        ("demo", _) => Ok(Recorded::new(Demo::new(clock, Duration::from_millis(20)))),
        ("chat", Some(url)) => Ok(Recorded::new(Chat::new(ChatConfig::new(url), clock)?)),
        _ => Err(Error::invalid("use demo, or chat/NAME@http://HOST/v1")),
    }
}

fn script(gate: &CancelToken) -> Scripted {
    let look = [("glob", r#"{"pattern":"src/**"}"#)];
    let read = [
        ("read", r#"{"path":"src/pond.rs"}"#),
        ("read", r#"{"path":"src/sea.rs"}"#),
        ("read", r#"{"path":"src/sky.rs"}"#),
    ];
    let largest = Reply::words(LARGEST[0]).then_wait(gate).then_text(LARGEST[1]);
    Scripted::new([
        Reply::calls(look).after_text("Let me look. ").usage(120, 12),
        Reply::calls(read).usage(180, 40),
        largest.usage(290, 21),
        Reply::text("Three.").usage(340, 2),
        Reply::text("pond.rs, sea.rs and sky.rs.").usage(340, 10),
        Reply::text(format!("You asked: {FIRST}")).usage(400, 12),
    ])
}
