//! Undoing what a turn did to files: all of it or none.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Weak,
};

use everturn_core::{
    Error, Result,
    conversation::Lineage,
    entry::{Entry, EntryRecord, kind},
    env::{Env, Expect, WriteFile},
    id::{ConversationId, TaskId},
    message::Message,
    storage::{EntryQuery, Order},
    task::TaskFailure,
};
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    agent::Agent,
    files::{Changes, FileChange, Image, contents, hash},
    live::LiveSession,
    turn::shared,
};
use crate::{
    NewTask, Session, Transaction,
    task::{Step, Task, TaskContext, TaskError},
};

/// Undoing as a task: plan, restore, tell the model.
pub(super) struct UndoTask(pub(super) Weak<Shared>);

/// What is undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct UndoInput {
    turns: Vec<TaskId>,
}

/// Where an undo stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UndoState {
    Planning,
    /// These files are restored; some of them may be already.
    Restoring(Vec<FileChange>),
}

impl Task for UndoTask {
    const NAME: &'static str = "et.undo";
    type Input = UndoInput;
    type State = UndoState;
    type Output = Vec<String>;

    fn start(&self, _: &UndoInput) -> UndoState {
        UndoState::Planning
    }

    async fn step(
        &self,
        cx: &TaskContext,
        input: &UndoInput,
        state: UndoState,
    ) -> Result<Step<Self>, TaskError> {
        let shared = shared(&self.0)?;
        let agent = cx.snapshot::<Agent>(cx.conversation()).await?.unwrap_or_default();
        let env = (shared.env)(&agent)?;
        match state {
            UndoState::Planning => plan(cx.session(), &env, (cx.conversation(), &input.turns)).await,
            UndoState::Restoring(files) => {
                if let Err(error) = restore(cx.session(), &env, &files).await {
                    return Ok(Step::fail(TaskFailure::new("not_restored", error.to_string())));
                }
                let paths: Vec<String> = files.into_iter().map(|file| file.path).collect();
                let mut tx = cx.begin().await?;
                tx.append_for(Some(cx.id()), cx.conversation(), note(&input.turns, &paths))?;
                Ok(Step::done(paths).with(tx))
            }
        }
    }
}

/// Finds what turns did, and proves that nobody has changed it since.
async fn plan(
    session: &Session,
    env: &Env,
    (conversation, turns): (ConversationId, &[TaskId]),
) -> Result<Step<UndoTask>, TaskError> {
    let (mut files, mut changed) = (Vec::new(), Vec::new());
    for Changed { mut file, states } in changed_by(session, conversation, turns).await? {
        let now = contents(env, &file.path).await?;
        file.after = now.as_deref().map(hash);
        if !states.contains(&file.after) && now != bytes(session, file.before).await? {
            changed.push(file.path.clone());
        }
        files.push(file);
    }
    Ok(match changed.as_slice() {
        [] => Step::go(UndoState::Restoring(files)),
        changed => {
            let (turns, changed) = (named(turns), changed.join(", "));
            let message = format!("undo {turns}: changed since: {changed}; nothing was restored");
            Step::fail(TaskFailure::new("changed_since", message))
        }
    })
}

/// What turns did to a file, all in all.
struct Changed {
    file: FileChange,
    /// The states in which they may have left the file: what is recorded was tried, and need not have been done.
    states: Vec<Option<String>>,
}

/// What turns and their sub-agents did to files: each file once.
async fn changed_by(
    session: &Session,
    conversation: ConversationId,
    turns: &[TaskId],
) -> Result<Vec<Changed>> {
    let mut results = results_of(session, conversation).await?;
    results.retain(|entry| entry.task.is_some_and(|task| turns.contains(&task)));
    let mut calls = calls_of(&results);
    let conversations = session.store().conversations(session.id()).await?;
    // A conversation comes behind the one whose call owns it.
    for child in conversations {
        if child.owner.is_some_and(|owner| calls.contains(&owner)) {
            let own = results_of(session, child.id).await?;
            calls.extend(calls_of(&own));
            results.extend(own);
        }
    }
    results.sort_by_key(|entry| entry.id);
    let mut files: BTreeMap<String, Changed> = BTreeMap::new();
    for file in results.iter().filter_map(changes).flat_map(|changes| changes.changes) {
        let (path, after) = (file.path.clone(), file.after.clone());
        files.entry(path).or_insert_with(|| Changed { file, states: Vec::new() }).states.push(after);
    }
    Ok(files.into_values().collect())
}

/// What was in a file.
async fn bytes(session: &Session, image: Image) -> Result<Option<Vec<u8>>> {
    Ok(match image {
        Image::Absent => None,
        Image::Empty => Some(Vec::new()),
        Image::Blob(blob) => Some(session.blob(blob, 0..u64::MAX).await?.bytes),
    })
}

async fn results_of(session: &Session, conversation: ConversationId) -> Result<Vec<EntryRecord>> {
    let own = EntryQuery::of(session.id(), Lineage::new(conversation));
    let mut entries = session.store().entries(EntryQuery { order: Order::OldestFirst, ..own }).await?;
    entries.retain(|entry| entry.kind == kind::RESULT);
    Ok(entries)
}

/// The calls whose results these are.
fn calls_of(results: &[EntryRecord]) -> BTreeSet<TaskId> {
    let calls = results.iter().flat_map(|entry| &entry.messages).filter_map(|message| match &**message {
        Message::Result(result) => result.call.0.strip_prefix('c')?.parse().ok().map(TaskId),
        _ => None,
    });
    calls.collect()
}

fn changes(entry: &EntryRecord) -> Option<Changes> {
    entry.data.as_ref().and_then(|data| data.read().ok())
}

/// Restores files. What was restored already stays; where one cannot be, the others are as they were before.
async fn restore(session: &Session, env: &Env, files: &[FileChange]) -> Result<()> {
    let mut done: Vec<(&str, Vec<u8>)> = Vec::new();
    for file in files {
        match restore_one(session, env, file).await {
            Ok(Some(replaced)) => done.push((&file.path, replaced)),
            Ok(None) => {}
            Err(error) => {
                for (path, bytes) in done.into_iter().rev() {
                    put(env, path, Some(bytes)).await?;
                }
                return Err(error.while_(format_args!("restore {:?}", file.path)));
            }
        }
    }
    Ok(())
}

/// Restores a file; gives what was there, where there was something to restore.
async fn restore_one(session: &Session, env: &Env, file: &FileChange) -> Result<Option<Vec<u8>>> {
    let before = bytes(session, file.before).await?;
    let now = contents(env, &file.path).await?;
    if now == before {
        return Ok(None);
    }
    if now.as_deref().map(hash) != file.after {
        return Err(Error::conflict("it was changed since"));
    }
    put(env, &file.path, before).await?;
    Ok(now)
}

async fn put(env: &Env, path: &str, bytes: Option<Vec<u8>>) -> Result<()> {
    match bytes {
        Some(bytes) => env.write(WriteFile { path: path.into(), bytes, expect: Expect::Any }).await.map(drop),
        None => env.remove(path.into()).await,
    }
}

/// What the model is told.
fn note(turns: &[TaskId], paths: &[String]) -> Entry {
    let turns = named(turns);
    let text = match paths {
        [] => {
            format!("What {turns} did was to be undone. No files had been changed; what commands did stays.")
        }
        paths => format!(
            "What {turns} did was undone: these files are as they were before: {}. What commands did stays.",
            paths.join(", ")
        ),
    };
    Entry::new(kind::NOTICE).message(Message::user(text))
}

fn named(turns: &[TaskId]) -> String {
    let ids: Vec<_> = turns.iter().map(ToString::to_string).collect();
    format!("{} {}", if ids.len() == 1 { "turn" } else { "turns" }, ids.join(", "))
}

impl Transaction {
    /// Stages the undoing of turns of a conversation.
    ///
    /// Errors: `Conflict` while a turn runs in it.
    pub(super) fn undo(&mut self, conversation: ConversationId, turns: Vec<TaskId>) -> Result<TaskId> {
        if let Some(busy) = self.live_turn(conversation) {
            let message = format!("undo {}: turn {} runs; cancel it or wait for it", named(&turns), busy.id);
            return Err(Error::conflict(message));
        }
        let new = NewTask::of::<UndoTask>(conversation, &UndoInput { turns })?;
        self.create_task(new)
    }
}

impl LiveSession {
    /// Restores the files that a turn and its sub-agents have changed, by tools that write files; the model is told. What commands
    /// did is not covered. Gives the files.
    ///
    /// Promise: all of them or none. Errors: `NotFound` when no such turn has ended; `Conflict` while a turn runs in its
    /// conversation, and where a file has changed since, naming it.
    pub async fn undo(&self, turn: TaskId) -> Result<Vec<String>> {
        let (conversation, _) = self.end_of(turn).await?.ok_or_else(|| {
            Error::not_found(format!("undo turn {turn} of session {}: no such turn has ended", self.id()))
        })?;
        self.undo_all(conversation, vec![turn]).await
    }

    /// The same for turns of a conversation.
    pub(super) async fn undo_all(
        &self,
        conversation: ConversationId,
        turns: Vec<TaskId>,
    ) -> Result<Vec<String>> {
        self.resume();
        let mut tx = self.begin().await?;
        let task = tx.undo(conversation, turns)?;
        tx.commit().await?;
        let ended = self.task::<UndoTask>(task).ended().await?;
        match ended.output()? {
            Some(paths) if ended.outcome().is_completed() => Ok(paths),
            _ => Err(Error::conflict(ended.outcome().to_string())),
        }
    }
}
