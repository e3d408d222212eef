//! Undoing what a turn did to files: all of it or none.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use everturn_core::{
    Error, ErrorKind, Result,
    conversation::Lineage,
    entry::{Entry, EntryRecord, kind},
    env::{Env, Expect, WriteFile},
    id::{ConversationId, TaskId},
    message::Message,
    storage::{EntryQuery, Order},
    task::{TaskFailure, TaskRecord},
};
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    agent::Agent,
    event::task_of,
    files::{Changes, FileChange, Image, contents, hash, keep},
    live::LiveSession,
    turn::{TurnTask, shared},
};
use crate::{
    NewTask, Session, Transaction,
    task::{Aborted, Remains, Step, Task, TaskContext, TaskError},
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
    Restoring(Vec<Restore>),
}

/// A file that is restored: what was in it before the turns, and what is in it now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Restore {
    directory: Option<String>,
    path: String,
    before: Image,
    now: Image,
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
        let undoing = Undoing::of(&shared, cx).await?;
        match state {
            UndoState::Planning => undoing.plan(&input.turns).await,
            UndoState::Restoring(files) => {
                if let Err(error) = undoing.restore(&files).await {
                    undoing.roll_back(&files).await;
                    return undoing.fail(TaskFailure::new("not_restored", error.to_string())).await;
                }
                let paths: Vec<String> = files.into_iter().map(|file| file.path).collect();
                let mut tx = cx.begin().await?;
                tx.append_for(Some(cx.id()), cx.conversation(), note(&input.turns, &paths))?;
                tx.go_on_all(&shared).await?;
                Ok(Step::done(paths).with(tx))
            }
        }
    }

    async fn abort(
        &self,
        cx: &TaskContext,
        _: &UndoInput,
        state: UndoState,
    ) -> Result<Aborted<Self>, TaskError> {
        self.give_up(cx, state).await
    }

    async fn fault(
        &self,
        cx: &TaskContext,
        _: &UndoInput,
        state: UndoState,
        _: &TaskFailure,
    ) -> Result<Remains<Self>, TaskError> {
        self.give_up(cx, state).await
    }
}

impl UndoTask {
    /// Ends an undo that was cut off: the files are as they were before it, and whoever waited for it goes on.
    async fn give_up(&self, cx: &TaskContext, state: UndoState) -> Result<Remains<Self>, TaskError> {
        let shared = shared(&self.0)?;
        if let UndoState::Restoring(files) = state {
            Undoing::of(&shared, cx).await?.roll_back(&files).await;
        }
        let mut tx = cx.begin().await?;
        tx.go_on_all(&shared).await?;
        Ok(Remains::default().with(tx))
    }
}

/// An undo that runs.
struct Undoing<'a> {
    shared: &'a Shared,
    cx: &'a TaskContext,
    agent: Agent,
}

impl<'a> Undoing<'a> {
    async fn of(shared: &'a Shared, cx: &'a TaskContext) -> Result<Self> {
        let agent = cx.snapshot::<Agent>(cx.conversation()).await?.unwrap_or_default();
        Ok(Self { shared, cx, agent })
    }

    /// The environment in which a call worked.
    fn env(&self, directory: &Option<String>) -> Result<Env> {
        (self.shared.env)(&Agent { directory: directory.clone(), ..self.agent.clone() })
    }

    /// Finds what turns did, proves that nobody has changed it since, and keeps what is there now.
    async fn plan(&self, turns: &[TaskId]) -> Result<Step<UndoTask>, TaskError> {
        let session = self.cx.session();
        let (mut files, mut changed) = (Vec::new(), Vec::new());
        for Changed { file, states } in changed_by(session, self.cx.conversation(), turns).await? {
            let now = contents(&self.env(&file.directory)?, &file.path).await?;
            let is_theirs = states.contains(&now.as_deref().map(hash));
            if !is_theirs && now != bytes(session, file.before).await? {
                changed.push(file.path.clone());
            }
            let FileChange { directory, path, before, .. } = file;
            files.push(Restore { directory, path, before, now: keep(session, now.as_deref()).await? });
        }
        if !changed.is_empty() {
            let (turns, changed) = (named(turns), changed.join(", "));
            let message = format!("undo {turns}: changed since: {changed}; nothing was restored");
            return self.fail(TaskFailure::new("changed_since", message)).await;
        }
        let mut tx = self.cx.begin().await?;
        for file in &files {
            if let Image::Blob(blob) = file.now {
                tx.refer(blob);
            }
        }
        Ok(Step::go(UndoState::Restoring(files)).with(tx))
    }

    /// Ends the undo that restores nothing; whoever waited for it goes on.
    async fn fail(&self, why: TaskFailure) -> Result<Step<UndoTask>, TaskError> {
        let mut tx = self.cx.begin().await?;
        tx.go_on_all(self.shared).await?;
        Ok(Step::fail(why).with(tx))
    }

    /// Restores files. What was restored already stays.
    async fn restore(&self, files: &[Restore]) -> Result<()> {
        for file in files {
            let (before, planned) = self.images(file).await?;
            self.put(file, &planned, &before)
                .await
                .map_err(|error| error.while_(format_args!("restore {:?}", file.path)))?;
        }
        Ok(())
    }

    /// Makes files what they were when the undo was planned, as far as they are as the undo has left them.
    async fn roll_back(&self, files: &[Restore]) {
        for file in files.iter().rev() {
            let back = async {
                let (before, planned) = self.images(file).await?;
                self.put(file, &before, &planned).await
            };
            if let Err(error) = back.await {
                tracing::warn!(task = %self.cx.id(), path = file.path, %error, "a file stays as an undo has left it");
            }
        }
    }

    async fn images(&self, file: &Restore) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>)> {
        let session = self.cx.session();
        Ok((bytes(session, file.before).await?, bytes(session, file.now).await?))
    }

    /// Makes a file what it should be, if it is what it was; where it is already, nothing is done.
    async fn put(&self, file: &Restore, was: &Option<Vec<u8>>, wanted: &Option<Vec<u8>>) -> Result<()> {
        let env = self.env(&file.directory)?;
        // The state is asked before the contents: a change between the two is refused by the write.
        let expect = match env.stat(file.path.clone()).await {
            Ok(stat) => Expect::Version(stat.version),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => Expect::Absent,
            Err(error) => return Err(error),
        };
        let now = contents(&env, &file.path).await?;
        match wanted {
            wanted if now == *wanted => Ok(()),
            _ if now != *was => Err(Error::conflict("it was changed since")),
            Some(bytes) => {
                let write = WriteFile { path: file.path.clone(), bytes: bytes.clone(), expect };
                env.write(write).await.map(drop)
            }
            None => env.remove(file.path.clone()).await,
        }
    }
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
    let mut files: BTreeMap<(Option<String>, String), Changed> = BTreeMap::new();
    for file in results.iter().filter_map(changes).flat_map(|changes| changes.changes) {
        let (place, after) = ((file.directory.clone(), file.path.clone()), file.after.clone());
        files.entry(place).or_insert_with(|| Changed { file, states: Vec::new() }).states.push(after);
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
        Message::Result(result) => task_of(&result.call),
        _ => None,
    });
    calls.collect()
}

fn changes(entry: &EntryRecord) -> Option<Changes> {
    entry.data.as_ref().and_then(|data| data.read().ok())
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
    /// Stages the undoing of turns of a conversation; where they are being undone, that is it. The files are the session's:
    /// none of its turns begins until it has ended.
    ///
    /// Errors: `Conflict` while a turn or an undo of others runs in the session.
    pub(super) fn undo(&mut self, conversation: ConversationId, turns: Vec<TaskId>) -> Result<TaskId> {
        if let Some(busy) = self.at_work(TurnTask::NAME).first() {
            let message = format!("undo {}: turn {} runs; cancel it or wait for it", named(&turns), busy.id);
            return Err(Error::conflict(message));
        }
        let input = UndoInput { turns };
        match self.undoing() {
            None => self.create_task(NewTask::of::<UndoTask>(conversation, &input)?),
            Some(other) if other.abort.is_none() && other.input.read::<UndoInput>()? == input => Ok(other.id),
            Some(other) => {
                let turns = named(&input.turns);
                Err(Error::conflict(format!("undo {turns}: undo {} runs; wait for it", other.id)))
            }
        }
    }

    /// The undo that runs on the session's files.
    pub(super) fn undoing(&self) -> Option<Arc<TaskRecord>> {
        self.at_work(UndoTask::NAME).pop()
    }
}

impl LiveSession {
    /// Restores the files that a turn and its sub-agents have changed, by tools that write files; the model is told. What commands
    /// did is not covered. Gives the files.
    ///
    /// Promise: all of them or none. No turn of the session begins meanwhile: what is handed over waits until it has ended.
    /// Errors: `NotFound` when no such turn has ended; `Conflict` while a turn or another undo runs in the session, and where a
    /// file has changed since, naming it.
    pub async fn undo(&self, turn: TaskId) -> Result<Vec<String>> {
        self.resume();
        let mut tx = self.begin().await?;
        let task = tx.undo_turn(turn).await?;
        tx.commit().await?;
        self.undone(task).await
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
        self.undone(task).await
    }

    /// Waits for the end of an undo; gives the files.
    async fn undone(&self, task: TaskId) -> Result<Vec<String>> {
        let ended = self.task::<UndoTask>(task).ended().await?;
        match ended.output()? {
            Some(paths) if ended.outcome().is_completed() => Ok(paths),
            _ => Err(Error::conflict(ended.outcome().to_string())),
        }
    }
}
