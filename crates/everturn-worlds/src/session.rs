//! A whole session, as a program that can be stopped anywhere and run again: calls of every kind, questions, a steer, a
//! follow-up, a wait for a busy provider, a fork, a summary, sub-agents, a new beginning, an undo, a branch. What it comes to
//! is always the same.
//!
//! The program resumes as an application does: what it hands over has request ids, and what has none is looked for first.

mod follower;
mod hands;
mod outcome;
mod script;

use std::time::Duration;

use everturn::{
    Agent, Branch, ConversationHandle, Document, Extension, Harness, Input, LiveSession, Models, Result,
    SessionSpec, Settings, Submission, Transaction,
    approval::{Decision, Question},
    conversation::Ownership,
    entry::{EntryRecord, kind},
    env::Env,
    id::ConversationId,
    policy::{Layer, Policy},
    storage::{Layered, Part, Store},
    submission::End,
    watch::Start,
};
use serde::{Deserialize, Serialize};

use crate::tasks::{Acknowledging, Place};
use follower::follow;
pub use hands::{Files, put_files};
pub use outcome::Outcome;
use script::Provider;

const ROOT: ConversationId = ConversationId::ROOT;

/// What a session takes place in.
#[derive(Clone)]
pub struct Scene {
    /// Store, time, and the book of the world outside.
    pub place: Place,
    /// The files that calls reach.
    pub env: Env,
    /// How long the provider is busy once.
    pub busy: Duration,
}

/// What the program notes in the commits of what has no request id.
#[derive(Default, Document, Serialize, Deserialize)]
#[document(kind = "worlds.done", version = 1, scope = "session")]
struct Done {
    fork: Option<ConversationId>,
}

struct Life {
    scene: Scene,
    harness: Harness,
    session: LiveSession,
}

/// Runs the session's life to its end, from wherever it stands.
///
/// Promise: calling it again, in any process, changes nothing but what is counted of requests.
/// Errors: what the store says.
pub async fn live(scene: Scene) -> Result<Outcome> {
    let life = Life::open(scene).await?;
    let acknowledged = life.check_acknowledged();
    let following = tokio::spawn(follow(life.session.root(), life.scene.place.ledger.clone()));
    life.run().await?;
    let mut outcome = life.outcome().await?;
    life.session.close().await?;
    following.await.expect("a follower does not panic")?;
    outcome.findings.extend(acknowledged);
    outcome.findings.extend(life.wrong_in_what_was_followed().await?);
    Ok(outcome)
}

impl Life {
    async fn open(scene: Scene) -> Result<Self> {
        let Place { store, world, ledger } = scene.place.clone();
        let store = Store::new(Layered(Acknowledging(store, ledger.clone())));
        let provider = Provider { ledger: ledger.clone(), clock: world.clock.clone(), busy: scene.busy };
        let tools = hands::tools(Extension::new("hands"), &ledger);
        let policy = Policy::new().rule(Layer::User, "ask tool(sign)".parse()?);
        let policy = policy.rule(Layer::User, "ask tool(burn)".parse()?);
        let env = scene.env.clone();
        let harness = Harness::builder(store)
            .world(world)
            .models(Models::new().provider("scripted", provider))
            .settings(Settings { keep_recent: 20, retries_max: 10, ..Settings::default() })
            .policy(policy)
            .env(move |_| Ok(env.clone()))
            .install(tools)?
            .open()
            .await?;
        let agent = Agent { model: Some("scripted".parse()?), ..Agent::default() };
        let spec = SessionSpec { request: Some("the-session".into()), agent, ..SessionSpec::default() };
        let session = harness.create(spec).await?;
        Ok(Self { scene, harness, session })
    }

    /// What was acknowledged and is not there.
    fn check_acknowledged(&self) -> Option<String> {
        let (acknowledged, head) = (self.scene.place.ledger.acknowledged(), self.session.head());
        (acknowledged > head).then(|| format!("seq {acknowledged} was acknowledged, and the head is {head}"))
    }

    async fn run(&self) -> Result<()> {
        let root = self.session.root();
        let first = root.submit(Input::text("first").request("r-1")).await?;
        // Both are there before anybody decides what the first turn asks: they find it at work.
        root.submit(Input::text("gently").steer().request("r-steer")).await?;
        let second = root.submit(Input::text("second").request("r-2")).await?;
        tokio::select! {
            biased;
            done = self.rest(&root, first, second) => done,
            failed = self.decide() => failed,
        }
    }

    /// All that comes after the first inputs, while a person decides what is asked.
    async fn rest(&self, root: &ConversationHandle, first: Submission, second: Submission) -> Result<()> {
        first.answer().await?;
        second.answer().await?;
        let fork = self.fork(&second).await?;
        self.ask(&fork, "third", "r-3").await?;
        self.compact(root).await?;
        let fourth = self.ask(root, "fourth", "r-4").await?;
        self.idle().await?;
        self.reset(root).await?;
        let fifth = self.ask(root, "fifth", "r-5").await?;
        self.undo(&fifth).await?;
        if self.session.current().await?.id() == ROOT {
            let turn = fourth.turn().await?.expect("what was answered had a turn");
            self.session.branch_from(turn, Branch::default()).await?;
        }
        self.ask(&self.session.current().await?, "sixth", "r-6").await?;
        self.idle().await
    }

    async fn ask(&self, whom: &ConversationHandle, text: &str, request: &str) -> Result<Submission> {
        let asked = whom.submit(Input::text(text).request(request)).await?;
        asked.answer().await?;
        Ok(asked)
    }

    /// Decides what is asked, until the end of the life.
    async fn decide(&self) -> Result<()> {
        let mut watch = self.session.watch(Part::Everything, Start::Now);
        loop {
            for open in self.session.open_approvals() {
                let Question::Call { tool, .. } = &open.question else { continue };
                let decision = match tool.as_str() {
                    "sign" => Decision::Allow,
                    _ => Decision::Deny { reason: "not this".into() },
                };
                self.session.decide(open.id, decision, "ada").await?;
            }
            if watch.next().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Forks the root where the second turn has ended, unless it was.
    async fn fork(&self, second: &Submission) -> Result<ConversationHandle> {
        let done = self.session.snapshot::<Done>(()).await?.unwrap_or_default();
        if let Some(fork) = done.fork {
            return Ok(self.session.conversation_handle(fork));
        }
        let turn = second.turn().await?;
        let turns = self.session.turns().await?;
        let at = turns.iter().find(|view| Some(view.record.turn) == turn).expect("a turn that has ended");
        let mut tx: Transaction = self.session.begin().await?;
        let fork = tx.fork(ROOT, at.entry, Ownership::Ownerless).await?;
        tx.doc::<Done>(()).await?.fork = Some(fork);
        tx.commit().await?;
        Ok(self.session.conversation_handle(fork))
    }

    async fn compact(&self, root: &ConversationHandle) -> Result<()> {
        // One that was asked for in another life may be at work.
        self.idle().await?;
        match self.has(kind::COMPACTION, "").await? {
            true => Ok(()),
            false => root.compact(None).await.map(drop),
        }
    }

    async fn reset(&self, root: &ConversationHandle) -> Result<()> {
        match self.has(kind::RESET, "").await? {
            true => Ok(()),
            false => root.reset(Some("What was before is over.".into())).await.map(drop),
        }
    }

    async fn undo(&self, fifth: &Submission) -> Result<()> {
        self.idle().await?;
        if self.has(kind::NOTICE, "was undone").await? {
            return Ok(());
        }
        let turn = fifth.turn().await?.expect("what was answered had a turn");
        self.session.undo(turn).await.map(drop)
    }

    /// Whether the root has an entry of a kind that says something.
    async fn has(&self, kind: &str, says: &str) -> Result<bool> {
        let entries = self.session.entries(ROOT, None, usize::MAX).await?;
        Ok(entries.iter().any(|entry: &EntryRecord| entry.kind == kind && entry.text().contains(says)))
    }

    /// Waits until nothing lives and nothing waits.
    async fn idle(&self) -> Result<()> {
        self.session.resume();
        let mut graphs = self.session.task_graph();
        while !graphs.next().await?.tasks.is_empty() || !self.session.open_submissions().is_empty() {}
        Ok(())
    }
}

/// Whether an input came to the end that all of them are to come to.
fn is_answered(end: &End) -> bool {
    *end == End::Answered
}

/// Text without what differs from life to life: ids.
fn without_ids(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if plain.ends_with('#') => {}
            true => plain.push('#'),
            false => plain.push(c),
        }
    }
    plain
}
