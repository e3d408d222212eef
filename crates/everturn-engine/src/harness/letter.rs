//! What can be asked of a session, by its owner at once and by anyone else as mail. One commit takes it and does it.

use std::sync::Weak;

use everturn_core::{
    BoxFuture, Error, Result,
    approval::Decision,
    id::{ApprovalId, ConversationId, EntryId, SessionId, SubmissionId, TaskId},
    json::RawJson,
    storage::{Mail, MailFilter, MailKind, Posted, Receipt},
    submission::{LOCAL, Queued},
};
use serde::{Deserialize, Serialize};

use super::{
    Harness, LiveSession, Shared,
    agent::AgentChange,
    budget::waits_for_room,
    input::{Input, WhenBusy},
    turn::shared,
};
use crate::{Session, Transaction, task::Postman};

/// What can be asked of a session.
///
/// ```
/// use everturn_core::id::ConversationId;
/// use everturn_engine::{Input, Letter};
/// let steer = Letter::Submit { conversation: ConversationId::ROOT, input: Input::text("in French").steer() };
/// ```
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a letter is written once and taken once")]
pub enum Letter {
    /// Hand an input to a conversation, as [`ConversationHandle::submit`](super::ConversationHandle::submit) does.
    Submit {
        /// The conversation.
        conversation: ConversationId,
        /// What is handed over.
        input: Input,
    },
    /// Take an input back that still waits.
    Withdraw {
        /// The input.
        submission: SubmissionId,
    },
    /// End the turn that runs in a conversation; the queue goes on.
    Cancel {
        /// The conversation.
        conversation: ConversationId,
    },
    /// Withdraw what waits in a conversation and tell all its work to stop.
    Abort {
        /// The conversation.
        conversation: ConversationId,
        /// Whether background work is told too.
        background: bool,
    },
    /// Decide an approval.
    Decide {
        /// The approval.
        approval: ApprovalId,
        /// What is decided.
        decision: Decision,
    },
    /// Change what a conversation runs with.
    Configure {
        /// The conversation.
        conversation: ConversationId,
        /// The change.
        change: AgentChange,
    },
    /// Fork a conversation.
    Fork {
        /// The conversation.
        conversation: ConversationId,
        /// The last entry that the fork has; all, without one.
        at: Option<EntryId>,
        /// What is different of its agent.
        change: AgentChange,
    },
    /// Restore the files that a turn has changed.
    Undo {
        /// The turn.
        turn: TaskId,
    },
    /// Make the context of a conversation shorter.
    Compact {
        /// The conversation.
        conversation: ConversationId,
        /// What the summary should look at most of all.
        focus: Option<String>,
    },
    /// Begin a conversation anew.
    Reset {
        /// The conversation.
        conversation: ConversationId,
        /// What the model is told of what came before.
        hand_off: Option<String>,
    },
}

/// The body of a letter, as mail has it: what its kind and its conversation do not say.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<Queued>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rejects: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission: Option<SubmissionId>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    background: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Decision>,
    #[serde(skip_serializing_if = "AgentChange::is_none")]
    change: AgentChange,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<EntryId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Who asks, and under which key.
///
/// ```
/// use everturn_engine::Sender;
/// assert_eq!(Sender::key("steer-7").actor, "local");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The sender's own name of the letter, unique in the session: sending again under it changes nothing.
    pub key: String,
    /// Who asks.
    pub actor: String,
}

impl Sender {
    /// Whoever is at this machine, under a key.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: key.into(), actor: LOCAL.into() }
    }
}

/// How an owner takes a letter.
///
/// ```
/// use everturn_engine::Taking;
/// let only_noted = Taking { runs: false, ..Taking::default() };
/// assert_eq!(only_noted.actor, "local");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// Who asks.
    pub actor: String,
    /// Whether the session's work goes on. Without it, what was asked is stored and nothing is run: for who owns the session
    /// only to ask something of it.
    pub runs: bool,
}

impl Default for Taking {
    fn default() -> Self {
        Self { actor: LOCAL.into(), runs: true }
    }
}

/// A letter as it is handled: what is asked, of which conversation, and the rest.
struct Opened {
    kind: MailKind,
    conversation: Option<ConversationId>,
    request: Option<String>,
    body: Body,
}

impl Letter {
    /// The key under which it lies: the sender's, but an input with a request id is known by that.
    pub fn key(&self, sender: &Sender) -> String {
        match self {
            Self::Submit { conversation, input: Input { request: Some(request), .. } } => {
                Mail::submit_key(*conversation, request)
            }
            _ => sender.key.clone(),
        }
    }

    fn open(self) -> Result<(Opened, Option<String>)> {
        use MailKind::{Abort, Cancel, Compact, Configure, Decide, Fork, Reset, Submit, Undo, Withdraw};
        let body = Body::default();
        let (kind, conversation, body) = match self {
            Self::Submit { conversation, input } => {
                let (request, actor) = (input.request.clone(), input.actor.clone());
                let rejects = input.when_busy == WhenBusy::Reject;
                let body = Body { queued: Some(input.into_queued()?), rejects, ..body };
                let opened = Opened { kind: Submit, conversation: Some(conversation), request, body };
                return Ok((opened, Some(actor)));
            }
            Self::Withdraw { submission } => (Withdraw, None, Body { submission: Some(submission), ..body }),
            Self::Cancel { conversation } => (Cancel, Some(conversation), body),
            Self::Abort { conversation, background } => {
                (Abort, Some(conversation), Body { background, ..body })
            }
            Self::Decide { approval, decision } => {
                (Decide, None, Body { approval: Some(approval), decision: Some(decision), ..body })
            }
            Self::Configure { conversation, change } => {
                (Configure, Some(conversation), Body { change, ..body })
            }
            Self::Fork { conversation, at, change } => {
                (Fork, Some(conversation), Body { at, change, ..body })
            }
            Self::Undo { turn } => (Undo, None, Body { turn: Some(turn), ..body }),
            Self::Compact { conversation, focus } => {
                (Compact, Some(conversation), Body { text: focus, ..body })
            }
            Self::Reset { conversation, hand_off } => {
                (Reset, Some(conversation), Body { text: hand_off, ..body })
            }
        };
        Ok((Opened { kind, conversation, request: None, body }, None))
    }
}

impl Transaction {
    /// Stages what is asked; gives the id of what came of it, where something did.
    async fn act(&mut self, shared: &Shared, opened: Opened, actor: &str) -> Result<Option<u64>> {
        let Opened { kind, conversation, request, body } = opened;
        let missing = || Error::invalid(format!("take mail: one to {} lacks a part", kind.name()));
        let place = conversation.ok_or_else(missing);
        if let Some(conversation) = conversation {
            self.conversation(conversation).await?;
        }
        Ok(match kind {
            MailKind::Submit => {
                let queued = body.queued.ok_or_else(missing)?;
                Some(self.submit(shared, (place?, request, actor), (queued, body.rejects)).await?.0)
            }
            MailKind::Withdraw => Some(self.withdraw(body.submission.ok_or_else(missing)?)?.0),
            MailKind::Cancel => self.cancel_turn(place?).await?.map(|turn| turn.0),
            MailKind::Abort => {
                self.abort_conversation(place?, body.background)?;
                None
            }
            MailKind::Decide => {
                let (approval, decision) = body.approval.zip(body.decision).ok_or_else(missing)?;
                self.decide(shared, approval, (decision, actor)).await?;
                Some(approval.0)
            }
            MailKind::Configure => {
                self.configure(shared, place?, body.change).await?;
                None
            }
            MailKind::Fork => Some(self.fork_with(shared, place?, (body.at, body.change)).await?.0),
            MailKind::Undo => Some(self.undo_turn(body.turn.ok_or_else(missing)?).await?.0),
            MailKind::Compact => Some(self.compact_now(place?, body.text)?.0),
            MailKind::Reset => Some(self.reset(place?, body.text)?.0),
            MailKind::Signal => return Err(missing()),
        })
    }
}

impl LiveSession {
    /// Does what a letter asks, in one commit; gives the id of what came of it, where something did.
    ///
    /// Errors: as the verb of the handle that does the same.
    pub async fn take(&self, letter: Letter, taking: Taking) -> Result<Option<u64>> {
        if taking.runs {
            self.resume();
        }
        let (opened, own) = letter.open()?;
        let mut tx = self.begin().await?;
        let id = tx.act(self.shared(), opened, own.as_deref().unwrap_or(&taking.actor)).await?;
        tx.commit().await?;
        Ok(id)
    }
}

impl Harness {
    /// Leaves a letter for a session, whoever owns it: it is taken where the session runs, now or next. With an open session,
    /// [`LiveSession::take`] does it at once.
    ///
    /// Promise: idempotent by its key. When it returns it survives the power. Its [receipt](Self::receipt) says what came of it.
    /// Errors: `NotFound` for an unknown session; `TooLarge` or `Invalid` for what is beyond the limits.
    pub async fn post(&self, session: SessionId, letter: Letter, sender: Sender) -> Result<Posted> {
        let opener = self.opener();
        let key = letter.key(&sender);
        let (Opened { kind, conversation, request, body }, own) = letter.open()?;
        let mail = Mail {
            session,
            key,
            kind,
            conversation,
            request,
            actor: own.filter(|actor| actor != LOCAL).unwrap_or(sender.actor),
            time: opener.world.clock.now(),
            body: RawJson::of(&body)?,
        };
        opener.post(mail).await
    }

    /// What came of a letter; none while it waits.
    ///
    /// Errors: `NotFound` when no letter lies under the key.
    pub async fn receipt(&self, session: SessionId, key: &str) -> Result<Option<Receipt>> {
        let mail = self.opener().store.mail(session, MailFilter::Key(key.into())).await?.pop();
        let mail = mail.ok_or_else(|| {
            Error::not_found(format!("look for mail {key:?} of session {session}: there is none"))
        })?;
        Ok(mail.receipt)
    }
}

/// Takes the mail of sessions for their harness.
pub(super) struct HarnessMail(pub(super) Weak<Shared>);

impl Postman for HarnessMail {
    fn act<'a>(&'a self, tx: &'a mut Transaction, mail: &'a Mail) -> BoxFuture<'a, Result<Option<u64>>> {
        Box::pin(async move {
            let shared = shared(&self.0)?;
            let opened = Opened {
                kind: mail.kind,
                conversation: mail.conversation,
                request: mail.request.clone(),
                body: mail.body.read()?,
            };
            tx.act(&shared, opened, &mail.actor).await
        })
    }

    fn pick_up<'a>(&'a self, tx: &'a mut Transaction) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let shared = shared(&self.0)?;
            tx.pick_up(&shared).await
        })
    }

    fn has_waiting(&self, session: &Session) -> bool {
        let state = session.0.state();
        state.live.approvals().next().is_some() || state.live.tasks().any(|task| waits_for_room(task))
    }

    fn wake<'a>(&'a self, tx: &'a mut Transaction) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            tx.wake_asking(None).await?;
            tx.wake_all_for_room().await
        })
    }
}
