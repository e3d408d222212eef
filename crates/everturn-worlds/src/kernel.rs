//! A session's life without models, as a program that can be stopped anywhere and run again: what it comes to is always
//! the same.
//!
//! Each step says so in its own commit; a step that is on record is not done again. That is how an application resumes.

mod outcome;
mod second;
mod steps;
mod watchers;

use std::collections::BTreeMap;

use everturn::{
    Error, Result, Transaction,
    entry::Entry,
    id::ConversationId,
    kernel::{Opener, Session},
    storage::{NewSession, Store},
};
use serde::{Deserialize, Serialize};

use crate::{
    notebook::{Line, Notebook},
    still,
};
pub use outcome::Outcome;
use watchers::Watchers;
pub use watchers::{OWNER, READER};

const ROOT: ConversationId = ConversationId::ROOT;

/// The request id of the session.
pub const REQUEST: &str = "the-session";

/// A step that was done, as its commit says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done {
    step: String,
    /// What the step made: a conversation, an entry.
    made: Option<u64>,
}

struct Life<'a> {
    opener: Opener,
    session: Session,
    notebook: &'a Notebook,
    watchers: Watchers,
    done: BTreeMap<String, Done>,
    /// Told of each step before it is taken.
    before: &'a dyn Fn(&str),
}

/// Runs the session's life to its end, from wherever it stands; tells of each step before it is taken.
///
/// Promise: calling it again, in any process, changes nothing.
/// Errors: what the store says; `Invalid` when it breaks a promise.
pub async fn live(store: Store, notebook: &Notebook, before: &dyn Fn(&str)) -> Result<Outcome> {
    let opener = Opener::new(store, still::world()).await;
    let new = NewSession { request: Some(REQUEST.into()), ..NewSession::default() };
    let session = Session::create(&opener, new).await?;
    if notebook.acknowledged() > session.head() {
        let (acknowledged, head) = (notebook.acknowledged(), session.head());
        return Err(Error::invalid(format!("seq {acknowledged} was acknowledged, and the head is {head}")));
    }
    let watchers = Watchers::join(&session, notebook).await?;
    let done = done(&session).await?;
    let mut life = Life { opener, session, notebook, watchers, done, before };
    life.watchers.catch_up(life.session.head(), notebook).await?;
    life.run().await?;
    let outcome = life.outcome().await?;
    life.session.close().await?;
    Ok(outcome)
}

/// The steps that are on record.
async fn done(session: &Session) -> Result<BTreeMap<String, Done>> {
    let mut steps = BTreeMap::new();
    for entry in session.entries(ROOT, None, usize::MAX).await? {
        if let Some(data) = entry.data.as_ref().filter(|_| entry.kind == "step") {
            let done: Done = data.read()?;
            if let Some(twice) = steps.insert(done.step.clone(), done) {
                return Err(Error::invalid(format!("step {} was taken twice", twice.step)));
            }
        }
    }
    Ok(steps)
}

impl Life<'_> {
    /// Takes a step, unless it is on record: one commit of what `stage` stages.
    async fn step(
        &mut self,
        name: &str,
        stage: impl AsyncFnOnce(&mut Transaction) -> Result<Option<u64>>,
    ) -> Result<()> {
        if self.is_done(name) {
            return Ok(());
        }
        (self.before)(name);
        let mut tx = self.session.begin().await?;
        let done = Done { step: name.into(), made: stage(&mut tx).await? };
        tx.append(ROOT, Entry::new("step").data(&done))?;
        let seq = tx.commit().await?;
        self.notebook.write(Line::Acknowledged(seq))?;
        self.done.insert(name.into(), done);
        self.watchers.follow(seq, self.notebook).await
    }

    fn is_done(&self, name: &str) -> bool {
        self.done.contains_key(name)
    }

    /// What a step made.
    fn made(&self, name: &str) -> Result<u64> {
        let made = self.done.get(name).and_then(|done| done.made);
        made.ok_or_else(|| Error::invalid(format!("step {name} was not taken, or made nothing")))
    }
}
