//! A submission's handle: follow it, wait for its end, stop it.

use everturn_core::{
    Error, Result,
    entry::{EntryRecord, kind},
    id::{ConversationId, SubmissionId, TaskId},
    submission::{End, Place, SubmissionState},
    task::tree::Reach,
    usage::Total,
};

use serde::de::DeserializeOwned;

use super::{event::Events, history::TurnRecord, live::LiveSession, turn::json_value};

/// Something that was handed to a conversation. Cheap to clone; keeps the session alive.
///
/// ```
/// # async fn example(asked: everturn_engine::Submission) -> everturn_core::Result<()> {
/// let mut events = asked.events();
/// while let Some(event) = events.next().await {
///     println!("{:?}", event?.kind);
/// }
/// println!("{}", asked.answer().await?.text);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Submission {
    live: LiveSession,
    id: SubmissionId,
    conversation: ConversationId,
}

/// How a submission ended.
///
/// ```
/// use everturn_core::{submission::End, usage::Total};
/// use everturn_engine::Answer;
///
/// let answer = Answer { text: "42".into(), end: End::Answered, turn: None, steps: 1, total: Total::default(), failure: None };
/// assert!(answer.is_answered());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The model's answer; empty where there is none.
    pub text: String,
    /// How the submission ended.
    pub end: End,
    /// Its turn, if it came to one.
    pub turn: Option<TaskId>,
    /// How many responses the turn took.
    pub steps: u32,
    /// What the turn's requests cost.
    pub total: Total,
    /// What went wrong, in words, where something did.
    pub failure: Option<String>,
}

impl Answer {
    /// Whether the model answered.
    pub fn is_answered(&self) -> bool {
        self.end == End::Answered
    }

    /// The answer as a `T`, where its JSON was [asked for](super::Input::answer_as).
    ///
    /// Errors: `Invalid` when there is none, or it does not read as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        json_value(&self.text).map_err(|problem| Error::invalid(format!("read an answer: {problem}")))?.read()
    }

    /// What went wrong, where something did.
    pub fn error(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

impl Submission {
    pub(super) fn new(live: LiveSession, id: SubmissionId, conversation: ConversationId) -> Self {
        Self { live, id, conversation }
    }

    /// Its id.
    pub fn id(&self) -> SubmissionId {
        self.id
    }

    /// Its conversation.
    pub fn conversation(&self) -> ConversationId {
        self.conversation
    }

    /// Its turn, once it has one.
    pub async fn turn(&self) -> Result<Option<TaskId>> {
        Ok(self.live.submission_record(self.id).await?.turn())
    }

    /// What happens to it, from its beginning to its end. Lets its work go on.
    pub fn events(&self) -> Events {
        self.live.resume();
        Events::of(self.live.clone(), self.conversation, self.id)
    }

    /// Waits for its end. Lets its work go on.
    ///
    /// Errors: `Closed` or `Fenced` when the session is given up first; the submission then ends where the session is
    /// opened next.
    pub async fn answer(&self) -> Result<Answer> {
        self.live.resume();
        let settled = || async {
            let record = self.live.submission_record(self.id).await?;
            Ok(match &record.state {
                SubmissionState::Settled { end, place } => Some((end.clone(), *place)),
                _ => None,
            })
        };
        let (end, place) = self.live.when(settled).await?;
        self.read(end, place).await
    }

    async fn read(&self, end: End, place: Option<Place>) -> Result<Answer> {
        let mut answer = Answer {
            text: String::new(),
            turn: place.map(|place| place.turn),
            steps: 0,
            total: Total::default(),
            failure: match &end {
                End::Returned { reason } | End::Failed { reason } => Some(reason.clone()),
                _ => None,
            },
            end,
        };
        let Some(record) = self.record(place).await? else {
            return Ok(answer);
        };
        (answer.steps, answer.total) = (record.steps, record.total);
        answer.failure = record.outcome.failure();
        if let Some(reply) = record.reply {
            let entry = self.live.entry(self.conversation, reply).await?;
            answer.text = entry.messages.iter().map(|message| message.text()).collect();
        }
        Ok(answer)
    }

    /// What the turn's entry keeps.
    async fn record(&self, place: Option<Place>) -> Result<Option<TurnRecord>> {
        let Some(Place { turn, .. }) = place else {
            return Ok(None);
        };
        let is_its = |entry: &EntryRecord| entry.kind == kind::TURN && entry.task == Some(turn);
        let newest = self.live.session().0.state().newest.find(is_its);
        if let Some(entry) = newest {
            return entry.read();
        }
        match self.live.end_of(turn).await? {
            Some((conversation, entry)) => self.live.entry(conversation, entry).await?.read(),
            None => Ok(None),
        }
    }

    /// Takes it back while it still waits, or ends its turn; the queue goes on as after an answer. Gives whether
    /// there was anything left to stop.
    pub async fn cancel(&self) -> Result<bool> {
        self.live.resume();
        let mut tx = self.live.begin().await?;
        let Some(record) = tx.submission(self.id).filter(|one| one.is_live()) else {
            return Ok(false);
        };
        match record.state {
            SubmissionState::Placed(place) => {
                tx.abort_task(place.turn, "cancelled", Reach::Ordinary).await?;
            }
            _ => tx.settle(&record, End::Withdrawn),
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Takes it back while it still waits.
    ///
    /// Errors: `Conflict` when it was placed or has ended.
    pub async fn withdraw(&self) -> Result<()> {
        let mut tx = self.live.begin().await?;
        tx.withdraw(self.id)?;
        tx.commit().await.map(drop)
    }
}
