//! A live session over a directory. Shows: streamed, steered, branched, reopened, accounted, refused, killed.
//!
//! With the scripted model (the default) everything is asserted to the letter. With any other, asserted is what the
//! harness guarantees, and printed what only the model decides. In a directory it goes on where it was killed:
//!
//! ```text
//! cargo run --example b_session_live -- --model demo
//! cargo run --example b_session_live -- --model chat/NAME@http://127.0.0.1:8080/v1
//! cargo run --example b_session_live -- --kill-at 9 DIRECTORY
//! ```

use everturn::{
    Answer, Branch, CancelToken, Error, Event, EventKind, Extension, Harness, Input, LiveSession, Models,
    Result, SessionSpec, SystemClock, TurnEnd, TurnView, World,
    env::Env,
    extension::{BeforeTool, CallView, Hooked},
    id::{SubmissionId, TaskId},
    message::{Message, Outcome},
    model::{ModelRef, Request},
    models::{Chat, ClientConfig, Demo},
    policy::{Layer, Policy},
    storage::{Layered, SubmissionFilter, SubmissionQuery},
    store,
    submission::Place,
    tools,
    usage::Total,
};
use everturn_testkit::{
    recorded::Recorded,
    scripted::{Reply, Scripted},
    watched::{Moment, Watched},
};
use std::{
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What stands under src/: a file, its only function, and the number that it returns.
const FILES: [(&str, &str, u32); 3] =
    [("pond", "frogs", 3), ("sea", "deep_m", 10_935), ("sky", "moon_km", 384_400)];
const FIRST: &str =
    "Read all files under src/ and say in one sentence: which function returns the largest number?";
const LARGEST: [&str; 2] = ["It is moon_km in src/sky.rs, ", "with 384400."];
const SECOND: &str = "Look at what is under src/ and write a line about it to NOTES.md.";
const STEER: &str = "Write it to SECOND.md instead, and not to NOTES.md.";
const THIRD: &str = "Which files are under src/?";
const FOURTH: &str = "What was my first question?";
const FIFTH: &str = "Remove src/ with rm.";
const RULE: &str = "deny exec(rm **)";

/// What outlives a restart: a place for the store, a directory to work in, and a model to ask.
struct Scene {
    url: String,
    root: PathBuf,
    reference: ModelRef,
    model: Recorded,
    /// The scripted answer goes on when this opens.
    gate: CancelToken,
    /// Calls of the second turn begin when this opens.
    steered: CancelToken,
    /// At which commit the process ends, and how many there were.
    kill_at: Option<u64>,
    commits: Arc<AtomicU64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (reference, kill_at, directory) = arguments()?;
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let is_alone = directory.is_none();
    let directory = directory.unwrap_or_else(|| temporary.path().to_owned());
    let scene = Scene::new(&directory, reference, kill_at)?;
    let came_to = live(&scene).await?;
    println!("came to:   {came_to}");
    if is_alone && scene.is_scripted() {
        killed(&came_to);
    }
    Ok(())
}

/// The session, from wherever it stands to its end; gives what it came to.
async fn live(scene: &Scene) -> Result<String> {
    let mut spec =
        SessionSpec { request: Some("live".into()), ..SessionSpec::model(scene.reference.clone()) };
    spec.agent.directory = Some(scene.root.display().to_string());
    let harness = scene.open().await?;
    let session = harness.create(spec).await?;
    let is_new = session.history().await?.is_empty() && session.open_submissions().is_empty();
    let observe = || harness.install(Extension::new("observer").before_tool(Hold(scene.steered.clone())));
    if !session.history().await?.is_empty() {
        observe()?;
    }
    let first = streamed(scene, &session, is_new).await?;
    observe()?;
    let abandoned = steered(scene, &session, is_new).await?;
    branched(&session, first, &abandoned).await?;
    drop(harness);
    let (harness, session) = reopened(scene, session).await?;
    if is_new {
        accounted(scene, &session).await?;
    }
    refused(scene, &session).await?;
    assert_eq!(harness.verify(session.id()).await?, []);
    let (path, all) = (session.history().await?.len(), session.turns().await?.len());
    let written = std::fs::read_to_string(scene.root.join("SECOND.md")).unwrap_or_default();
    session.close().await?;
    Ok(format!("{path} turns on the path, {all} in the session, SECOND.md says {:?}", written.trim()))
}

/// Streamed: turn one reads the files with the built-in tools, and its answer is seen while it is made.
async fn streamed(scene: &Scene, session: &LiveSession, is_new: bool) -> Result<TaskId> {
    let clock = World::system().clock;
    let begun = clock.now();
    let asked = session.root().submit(Input::text(FIRST).request("r-1")).await?;
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
    let turns = session.turns().await?;
    let turn = turns.iter().find(|view| Some(view.record.turn) == answer.turn).expect("a turn");
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
    // Who comes later is told all at once.
    if scene.is_scripted() && is_new {
        assert!(total > 1 && early > 0);
        assert_eq!((seen, answer.steps), (FILES.len(), 3));
    }
    if scene.is_scripted() {
        assert_eq!(answer.text, LARGEST.concat());
    }
    println!("           {}", answer.text);
    println!("           {total} deltas, {early} before the last step had ended; {seen} of 3 files read");
    Ok(turn.record.turn)
}

/// Holds calls back until the observer has steered.
struct Hold(CancelToken);

impl BeforeTool for Hold {
    async fn before(&self, _: &CallView) -> Hooked {
        self.0.cancelled().await;
        Hooked::Pass
    }
}

/// Steered: at its first tool call, turn two is told to do something else. Gives the turn.
async fn steered(scene: &Scene, session: &LiveSession, is_new: bool) -> Result<TurnView> {
    let asked = session.root().submit(Input::text(SECOND).request("r-2")).await?;
    let (mut steer, mut told) = (None, Vec::new());
    let mut events = asked.events();
    while let Some(event) = events.next().await {
        match event?.kind {
            EventKind::CallProposed { .. } if steer.is_none() => {
                let input = Input::text(STEER).request("r-steer").steer();
                steer = Some(session.root().submit(input).await?);
                scene.steered.cancel();
            }
            EventKind::Steered { submission, .. } => told.push(submission),
            _ => {}
        }
    }
    scene.steered.cancel();
    let answer = answered(asked.answer().await?)?;
    if let Some(steer) = steer {
        let place = place(session, steer.id()).await?.expect("it was placed");
        assert_eq!(
            (Some(place.turn), place.step > 1),
            (answer.turn, true),
            "its receipt names turn and step"
        );
        assert_eq!(told, [steer.id()], "an event records it");
        // The requests of this turn that this life has sent: the steer is in the last ones, of its step and later.
        let mut sent = scene.model.requests();
        sent.retain(|request| request.texts().iter().any(|text| text == SECOND));
        let with = sent.iter().filter(|request| request.texts().iter().any(|text| text == STEER)).count();
        if is_new {
            assert!(sent.len() > with && with > 0, "{with} of {} requests have it", sent.len());
        }
        println!("steered:   before step {} of turn {}: {}", place.step, place.turn, answer.text);
    }
    if scene.is_scripted() {
        assert_eq!(answer.text, "SECOND.md is written.");
        assert!(scene.root.join("SECOND.md").exists() && !scene.root.join("NOTES.md").exists());
    }
    let turns = session.turns().await?;
    Ok(turns.into_iter().find(|view| Some(view.record.turn) == answer.turn).expect("the turn has ended"))
}

/// Where an input was placed.
async fn place(session: &LiveSession, input: SubmissionId) -> Result<Option<Place>> {
    let query = SubmissionQuery { session: session.id(), only: SubmissionFilter::Id(input) };
    Ok(session.store().submissions(query).await?.pop().and_then(|record| record.place()))
}

/// Branched: back to turn one, and another second turn.
async fn branched(session: &LiveSession, first: TaskId, abandoned: &TurnView) -> Result<()> {
    if session.current().await?.id() == session.root().id() {
        session.branch_from(first, Branch::default()).await?;
    }
    let second = ask(session, THIRD, "r-3").await?.turn;
    let path = session.history().await?;
    let path: Vec<_> = path.iter().map(|view| Some(view.record.turn)).collect();
    assert_eq!(path[..2], [Some(first), second]);

    assert!(session.turns().await?.contains(abandoned));
    assert_eq!(abandoned.record.outcome, TurnEnd::Answered);
    println!("branched:  the path leaves turn {} aside, which stays stored", abandoned.record.turn);
    Ok(())
}

/// Reopened: everything is dropped, and the id alone brings it back.
async fn reopened(scene: &Scene, session: LiveSession) -> Result<(Harness, LiveSession)> {
    let (id, history) = (session.id(), session.history().await?);
    drop(session);
    let harness = scene.open().await?;
    let session = harness.open_session(id).await?;
    let directory = session.current().await?.agent().await?.directory;
    assert_eq!(directory, Some(scene.root.display().to_string()));
    // In a life that goes on, what was cut off may have ended meanwhile.
    assert!(session.history().await?.starts_with(&history));

    let answer = ask(&session, FOURTH, "r-4").await?;
    for request in scene.model.requests() {
        assert_eq!(request.texts().first().map(String::as_str), Some(FIRST));
    }
    if scene.is_scripted() {
        assert_eq!(answer.text, format!("You asked: {FIRST}"));
    }
    println!("reopened:  {}", answer.text);
    Ok((harness, session))
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
        assert_eq!((input, output), (Some(2_410), Some(123)));
    }
    let [input, output] = [input, output].map(Option::unwrap_or_default);
    println!("accounted: {} requests, {input} tokens in, {output} out", total.requests);
    Ok(())
}

/// Refused: what policy does not allow comes back to the model with its rule, the turn goes on, and the refusal is listed.
async fn refused(scene: &Scene, session: &LiveSession) -> Result<()> {
    let answer = ask(session, FIFTH, "r-5").await?;
    assert!(FILES.iter().all(|file| scene.root.join(format!("src/{}.rs", file.0)).exists()));
    let current = session.current().await?.id();
    let mut refusals = Vec::new();
    for message in session.entries(current, None, usize::MAX).await?.iter().flat_map(|entry| &entry.messages)
    {
        if let Message::Result(result) = &**message
            && let Outcome::Denied { rule } = &result.outcome
        {
            refusals.push((rule.clone(), result.text.clone()));
        }
    }
    if scene.is_scripted() {
        assert_eq!(refusals, [(RULE.to_owned(), format!("Refused by policy: {RULE}."))]);
        assert_eq!(answer.text, "I may not do that.");
    }
    println!("refused:   {} times; {}", refusals.len(), answer.text);
    Ok(())
}

/// Killed: the same program ends its own process at a commit; run again, it comes to the same.
fn killed(expected: &str) {
    let program = std::env::current_exe().expect("this program");
    for kill_at in [2, 7, 14, 22] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let life = |arguments: &[&str]| {
            let output = Command::new(&program).args(arguments).arg(directory.path()).output();
            let output = output.expect("this program runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success().then(|| text.lines().last().unwrap_or_default().to_owned())
        };
        assert_eq!(life(&["--kill-at", &kill_at.to_string()]), None, "killed at commit {kill_at}");
        let came_to = life(&[]).expect("it goes on to its end");
        assert_eq!(came_to, format!("came to:   {expected}"), "after commit {kill_at}");
    }
    println!("killed:    four times, and each came to the same");
}

async fn ask(session: &LiveSession, what: &str, request: &str) -> Result<Answer> {
    let asked = session.current().await?.submit(Input::text(what).request(request)).await?;
    answered(asked.answer().await?)
}

fn answered(answer: Answer) -> Result<Answer> {
    match answer.error() {
        Some(error) => Err(Error::invalid(format!("ask the model: {error}"))),
        None => Ok(answer),
    }
}

/// What the command line asks for: the model, the commit to be killed at, the directory to live in.
fn arguments() -> Result<(ModelRef, Option<u64>, Option<PathBuf>)> {
    let usage = || Error::invalid("usage: b_session_live [--model REF] [--kill-at N] [DIRECTORY]");
    let (mut model, mut kill_at, mut directory) = ("scripted".parse()?, None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--model" => model = arguments.next().ok_or_else(usage)?.parse()?,
            "--kill-at" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                kill_at = Some(number.ok_or_else(usage)?);
            }
            other if !other.starts_with('-') => directory = Some(PathBuf::from(other)),
            _ => return Err(usage()),
        }
    }
    Ok((model, kill_at, directory))
}

impl Scene {
    fn new(directory: &Path, reference: ModelRef, kill_at: Option<u64>) -> Result<Self> {
        let root = directory.join("project");
        std::fs::create_dir_all(root.join("src")).expect("a directory for sources");
        for (file, name, number) in FILES {
            let text = format!("pub fn {name}() -> u32 {{\n    {number}\n}}\n");
            std::fs::write(root.join(format!("src/{file}.rs")), text).expect("a source file");
        }
        let gate = CancelToken::new();
        Ok(Self {
            url: format!("sqlite:{}", directory.join("sessions.db").display()),
            root,
            model: model(&reference, &gate)?,
            reference,
            gate,
            steered: CancelToken::new(),
            kill_at,
            commits: Arc::default(),
        })
    }

    /// A harness over a new connection to the store.
    async fn open(&self) -> Result<Harness> {
        let store = store::open(&self.url, store::Options::new(World::system().owner())).await?;
        let (commits, kill_at) = (self.commits.clone(), self.kill_at);
        let store = store::Store::new(Layered(Watched::new(store, move |moment, _| {
            if moment == Moment::After && Some(commits.fetch_add(1, Ordering::SeqCst) + 1) == kill_at {
                process::abort();
            }
            Box::pin(async {})
        })));
        let rule = |text: &str| text.parse();
        let policy = Policy::new().rule(Layer::User, rule("allow read(**)")?);
        let policy = policy.rule(Layer::User, rule("allow write(**)")?).rule(Layer::User, rule(RULE)?);
        Harness::builder(store)
            .models(Models::new().provider(&self.reference.provider, self.model.clone()))
            .install(Extension::new("coding").tools(tools::coding()))?
            .policy(policy)
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
        ("scripted", _) => {
            let gate = gate.clone();
            Ok(Recorded::new(Scripted::answering(move |request| reply(request, &gate))))
        }
        ("demo", _) => Ok(Recorded::new(Demo::new(clock, Duration::from_millis(20)))),
        ("chat", Some(url)) => Ok(Recorded::new(Chat::new(ClientConfig::new(url), clock)?)),
        _ => Err(Error::invalid("use demo, or chat/NAME@http://HOST/v1")),
    }
}

/// What the scripted model says: it looks at the newest question, and at the results since.
fn reply(request: &Request, gate: &CancelToken) -> Reply {
    let texts = request.texts();
    let questions = [FIRST, SECOND, THIRD, FOURTH, FIFTH];
    let asked = texts.iter().rposition(|text| questions.contains(&text.as_str())).unwrap_or_default();
    let is_result = |message: &&Arc<Message>| matches!(&***message, Message::Result(_));
    let results: Vec<_> = request.messages[asked..].iter().filter(is_result).map(|one| one.text()).collect();
    match (texts[asked].as_str(), results.len()) {
        (FIRST, 0) => {
            Reply::calls([("glob", r#"{"pattern":"src/**"}"#)]).after_text("Let me look. ").usage(120, 12)
        }
        (FIRST, 1) => Reply::calls([
            ("read", r#"{"path":"src/pond.rs"}"#),
            ("read", r#"{"path":"src/sea.rs"}"#),
            ("read", r#"{"path":"src/sky.rs"}"#),
        ])
        .usage(180, 40),
        (FIRST, _) => Reply::words(LARGEST[0]).then_wait(gate).then_text(LARGEST[1]).usage(290, 21),
        (SECOND, 0) => Reply::calls([("list", r#"{"path":"src"}"#)]).usage(340, 8),
        (SECOND, _) if results.last().is_some_and(|text| text.contains(r#""SECOND.md""#)) => {
            Reply::text("SECOND.md is written.").usage(380, 6)
        }
        (SECOND, _) => {
            let path = if texts.iter().any(|text| text == STEER) { "SECOND.md" } else { "NOTES.md" };
            let arguments = format!(r#"{{"path":"{path}","content":"Three files.\n"}}"#);
            Reply::calls([("write", arguments.as_str())]).usage(360, 14)
        }
        (THIRD, _) => Reply::text("pond.rs, sea.rs and sky.rs.").usage(340, 10),
        (FOURTH, _) => Reply::text(format!("You asked: {FIRST}")).usage(400, 12),
        (_, 0) => Reply::calls([("exec", r#"{"argv":["rm","-r","src"]}"#)]).usage(420, 9),
        _ => Reply::text("I may not do that.").usage(440, 5),
    }
}
