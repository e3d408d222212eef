//! `everturn demo`: what the harness promises, shown in a minute, on files in a temporary directory.

use std::{fs, os::unix::process::ExitStatusExt, path::Path, process::Stdio};

use everturn::{
    Branch, EventKind, Input, LiveSession, Submission, TurnEnd, message::Outcome, model::Thinking,
    models::Catalogue, submission::End,
};

use crate::{
    args::Which,
    config::{Chat, Config, Keys, Origins},
    exit::{Exit, Failure},
    host::{self, Host, Missing},
    screen::{Screen, cost},
};

const QUESTION: &str = "Which function under src returns the largest number?";
const OTHER: &str = "How many files are under src?";
const KILLED: &str = "Show src/orchard.rs";

/// The files that the agent reads.
const FILES: [(&str, &str); 3] = [
    (
        "src/orchard.rs",
        "/// Trees in the orchard.\npub fn trees() -> u32 {\n    120\n}\n\npub fn rows() -> u32 {\n    12\n}\n",
    ),
    ("src/harvest.rs", "/// Pears of a good year.\npub fn pears() -> u32 {\n    48_600\n}\n"),
    ("src/lib.rs", "mod harvest;\nmod orchard;\n\npub fn answer() -> u32 {\n    42\n}\n"),
];

/// What was promised, and whether it held.
struct Proof {
    screen: Screen,
    held: u32,
    broken: u32,
}

impl Proof {
    fn step(&mut self, text: &str) {
        self.screen.heading(text);
    }

    fn show(&mut self, what: &str, holds: bool) {
        let mark = if holds { "ok" } else { "BROKEN" };
        self.screen.note(&format!("  [{mark}] {what}"));
        if holds { self.held += 1 } else { self.broken += 1 }
    }
}

pub(crate) async fn run() -> Result<Exit, Failure> {
    let directory = tempfile::tempdir()?;
    for (path, text) in FILES {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(directory.path()))?;
        fs::write(path, text)?;
    }
    let mut proof = Proof { screen: Screen::new(), held: 0, broken: 0 };
    proof
        .screen
        .note("The demo model answers: no language model, but a few rules that really use the tools.");
    let host = host(directory.path(), Missing::Create).await?;
    let session = host.session(&Which::default(), QUESTION).await?;
    let id = session.id();
    stream(&session, &mut proof).await?;
    branch(&session, &mut proof).await?;
    session.close().await?;
    drop((session, host));
    kill(directory.path(), &mut proof).await?;
    let host = self::host(directory.path(), Missing::Refuse).await?;
    let session = host.reopen(id).await?;
    go_on(&session, &mut proof).await?;
    session.close().await?;
    let Proof { screen, held, broken } = &mut proof;
    screen.heading(&format!("{held} of {} promises held", *held + *broken));
    Ok(if *broken == 0 { Exit::Answered } else { Exit::Failed })
}

/// One question: the answer streams, and the calls that it needs are committed around their effects.
async fn stream(session: &LiveSession, proof: &mut Proof) -> Result<(), Failure> {
    proof.step(&format!("1. Ask: {QUESTION}"));
    let asked = session.root().submit(Input::text(QUESTION)).await?;
    let events = watch(&asked, Some(&mut proof.screen)).await?;
    let answer = asked.answer().await?;
    let calls = events
        .iter()
        .filter(|event| matches!(event, EventKind::CallEnded { outcome: Outcome::Ok, .. }))
        .count();
    let pieces: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::Text { step, delta, .. } if *step == answer.steps => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    proof.show(&format!("{calls} calls read the files before the answer"), calls >= 2);
    proof.show("the answer names the function", answer.text.contains("pears"));
    let streamed = pieces.len() > 1 && pieces.concat() == answer.text;
    proof
        .show(&format!("it was committed in {} pieces, which joined are the answer", pieces.len()), streamed);
    proof.show(
        &format!("the ledger has it: {}", cost(&answer.total)),
        answer.total.requests == u64::from(answer.steps),
    );
    Ok(())
}

/// Another second turn: the first stays what it was, the abandoned one stays stored.
async fn branch(session: &LiveSession, proof: &mut Proof) -> Result<(), Failure> {
    proof.step("2. Go back to the first turn and ask something else");
    let first = session.history().await?.first().map(|turn| turn.record.turn);
    let first = first.ok_or_else(|| Failure::usage("the first turn is missing"))?;
    ask(session, "hello").await?;
    session.branch_from(first, Branch::default()).await?;
    let asked = session.current().await?.submit(Input::text(OTHER)).await?;
    watch(&asked, Some(&mut proof.screen)).await?;
    let answer = asked.answer().await?;
    let path: Vec<_> = session.history().await?.iter().map(|turn| turn.record.turn).collect();
    proof.show(
        "the path is the first turn and the new one",
        Some(path.as_slice()) == answer.turn.map(|new| [first, new]).as_ref().map(<[_; 2]>::as_slice),
    );
    let turns = session.turns().await?;
    let kept = turns.len() == 3 && turns.iter().all(|turn| turn.record.outcome == TurnEnd::Answered);
    proof.show("the abandoned turn is still stored", kept);
    Ok(())
}

/// A process of its own asks, and kills itself while the answer streams.
async fn kill(directory: &Path, proof: &mut Proof) -> Result<(), Failure> {
    proof.step("3. Another process asks, and is killed in mid-answer (kill -9)");
    let program = std::env::current_exe()?;
    let mut command = tokio::process::Command::new(program);
    command.args(["demo", "--child"]).arg(directory).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().await?;
    proof.show(&format!("it ended by {status}"), status.signal() == Some(9));
    Ok(())
}

/// The part that is killed.
pub(crate) async fn child(directory: &Path) -> Result<Exit, Failure> {
    let host = host(directory, Missing::Refuse).await?;
    let session = host.session(&Which { r#continue: true, ..Which::default() }, "").await?;
    let asked = session.current().await?.submit(Input::text(KILLED).request("the-killed-one")).await?;
    let mut events = asked.events();
    while let Some(event) = events.next().await {
        if let EventKind::Text { .. } = event?.kind {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .map_err(std::io::Error::from)?;
        }
    }
    Ok(Exit::Failed)
}

/// The session is opened by its id, and the turn that was killed ends.
async fn go_on(session: &LiveSession, proof: &mut Proof) -> Result<(), Failure> {
    proof.step("4. Open the session by its id: the turn goes on");
    let open = session.open_submissions();
    proof.show("one input has not ended", open.len() == 1);
    let Some(asked) = open.first() else { return Ok(()) };
    let events = watch(asked, Some(&mut proof.screen)).await?;
    let answer = asked.answer().await?;
    proof.show("it is answered", answer.end == End::Answered && answer.text.contains("120"));
    let cut = events.iter().any(|event| matches!(event, EventKind::AttemptDiscarded { .. }));
    proof.show("what the killed attempt had shown is kept, and marked as cut off", cut);
    proof.show(
        &format!("the attempt that was cut off is in the ledger: {}", cost(&answer.total)),
        answer.total.unknown == 1,
    );
    let again = session.current().await?.submit(Input::text(KILLED).request("the-killed-one")).await?;
    proof.show("asking again with the same request id gives the same submission", again.id() == asked.id());
    Ok(())
}

async fn ask(session: &LiveSession, question: &str) -> Result<(), Failure> {
    session.current().await?.submit(Input::text(question)).await?.answer().await?;
    Ok(())
}

/// Follows a submission to its end and gives what happened.
async fn watch(asked: &Submission, mut screen: Option<&mut Screen>) -> Result<Vec<EventKind>, Failure> {
    let mut events = asked.events();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        let event = event?;
        if let Some(screen) = &mut screen {
            screen.event(&event.kind);
        }
        seen.push(event.kind);
    }
    Ok(seen)
}

/// A host on the demo's own directory, whatever the machine has configured.
async fn host(directory: &Path, missing: Missing) -> Result<Host, Failure> {
    let root = directory.canonicalize()?;
    let config = Config {
        store: format!("sqlite:{}", root.join("store.db").display()),
        root,
        model: Some(host::demo()),
        thinking: Thinking::Default,
        chat: Chat { base_url: "http://127.0.0.1:1/v1".into(), key: None, endpoint_key: None },
        keys: Keys::default(),
        catalogue: Catalogue::built_in(),
        rules: Vec::new(),
        origins: Origins::default(),
    };
    Host::of(config, missing).await
}
