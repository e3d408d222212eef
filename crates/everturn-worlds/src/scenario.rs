//! A session's life, as a program that can be stopped anywhere and run again: what it comes to is always the same.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use everturn::{
    Agent, Extension, Harness, Input, LiveSession, Models, Result, SessionSpec, Submission,
    message::Message,
    model::Request,
    store::Store,
    submission::End,
    tool::{CallContext, Contract, Tool, ToolResult},
};
use everturn_testkit::scripted::{Reply, Scripted};
use serde::{Deserialize, Serialize};

/// What the session came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The answers, in the order of the questions, and how their submissions ended.
    pub answers: Vec<(String, End)>,
    /// How many turns the current path has, and the session in all.
    pub turns: (usize, usize),
    /// How many inputs have not ended.
    pub open: usize,
    /// How often the tool that must not be repeated ran.
    pub effects: usize,
    /// How many requests are in the ledger that were cut off.
    pub cut: u64,
    /// Whether everything that is stored agrees with itself, and the transcript gives a legal request.
    pub is_sound: bool,
}

/// Runs the session's life to its end, from wherever it stands.
///
/// Promise: calling it again, in any process, changes nothing but [`Outcome::cut`].
pub async fn live(store: Store, effects: &Path) -> Result<Outcome> {
    let (harness, session) = open(store, effects).await?;
    // The second question waits while the first is answered.
    let first = session.root().submit(Input::text("first").request("r-1")).await?;
    let second = session.root().submit(Input::text("second").request("r-2")).await?;
    let mut answers = vec![answer(&first).await?, answer(&second).await?];
    if session.current().await?.id() == session.root().id() {
        let turn = first.turn().await?.expect("what was answered had a turn");
        session.branch_from(turn, everturn::Branch::default()).await?;
    }
    let third = session.current().await?.submit(Input::text("third").request("r-3")).await?;
    answers.push(answer(&third).await?);
    let outcome = Outcome {
        answers,
        turns: (session.history().await?.len(), session.turns().await?.len()),
        open: session.open_submissions().len(),
        effects: std::fs::read_to_string(effects).map_or(0, |text| text.lines().count()),
        cut: session.usage().await?.iter().filter(|row| row.usage.is_none()).count() as u64,
        is_sound: is_sound(&harness, &session).await?,
    };
    session.close().await?;
    Ok(outcome)
}

async fn open(store: Store, effects: &Path) -> Result<(Harness, LiveSession)> {
    let tools = Extension::new("test").tool(Look).tool(Note { effects: effects.to_owned() });
    let models = Models::new().provider("scripted", Scripted::answering(reply));
    let harness = Harness::builder(store).models(models).install(tools)?.open().await?;
    let agent = Agent { model: Some("scripted".parse()?), ..Agent::default() };
    let spec = SessionSpec { request: Some("the-session".into()), agent, ..SessionSpec::default() };
    let session = harness.create(spec).await?;
    Ok((harness, session))
}

async fn answer(asked: &Submission) -> Result<(String, End)> {
    let answer = asked.answer().await?;
    Ok((answer.text, answer.end))
}

/// What the model says: it looks at the question and at what came after it.
fn reply(request: &Request) -> Reply {
    let messages = &request.messages;
    let asked = messages.iter().rposition(|message| matches!(&**message, Message::User(_)));
    let (question, since) =
        asked.map_or((String::new(), 0), |at| (messages[at].text(), messages.len() - at - 1));
    match (question.as_str(), since) {
        ("first", 0) => {
            Reply::calls([("look", "{}"), ("note", "{}"), ("look", "{}")]).after_text("I look. ").usage(10, 5)
        }
        ("first", _) => Reply::words("the first answer is one").usage(20, 5),
        ("second", _) => Reply::words("the second answer is two").usage(30, 5),
        (_, 0) => Reply::calls([("look", "{}")]).usage(40, 5),
        _ => Reply::words("the third answer is three").usage(50, 5),
    }
}

/// What is stored agrees with itself, and the whole transcript gives a legal request.
async fn is_sound(harness: &Harness, session: &LiveSession) -> Result<bool> {
    let findings = harness.verify(session.id()).await?;
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    let current = session.current().await?.id();
    for conversation in [session.root().id(), current] {
        session.context(conversation, None).await?.check()?;
    }
    Ok(findings.is_empty())
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A tool that may run again.
struct Look;

impl Tool for Look {
    const NAME: &'static str = "look";
    type Arguments = Nothing;

    fn description(&self) -> &str {
        "Looks."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult {
        Ok("seen".into())
    }
}

/// A tool whose effect must not happen twice: it adds a line to a file.
struct Note {
    effects: PathBuf,
}

impl Tool for Note {
    const NAME: &'static str = "note";
    type Arguments = Nothing;

    fn description(&self) -> &str {
        "Makes a note."
    }

    async fn run(&self, cx: &CallContext, _: Nothing) -> ToolResult {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.effects)?;
        writeln!(file, "{}", cx.key)?;
        Ok("noted".into())
    }
}
