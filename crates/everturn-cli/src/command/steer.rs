//! `everturn steer ID TEXT`: speaks into the turn that runs, in whichever process.

use everturn::{
    ErrorKind, Input, Letter, WhenBusy, clean,
    id::{ConversationId, SessionId, SubmissionId},
    storage::{SubmissionFilter, SubmissionQuery},
    submission::{self, End, Place as Placed, SubmissionRecord, SubmissionState},
};

use crate::{
    args::{Late, Place, Where},
    asking::{Asking, Came, Then, ask, conversation, new_key},
    exit::{Exit, Failure},
    host::{Host, Missing},
    screen::say,
};

/// What is said, and how.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) late: Late,
    pub(crate) declining: bool,
    /// One of its own, where none was given.
    pub(crate) key: Option<String>,
}

pub(crate) async fn run(place: &Place, at: (SessionId, Where), said: Said) -> Result<Exit, Failure> {
    let Said { text, late, declining, key } = said;
    if text.trim().is_empty() {
        return Err(Failure::usage("steer: the text is empty; say what the turn should know"));
    }
    let host = Host::open(place, Missing::Refuse).await?;
    let (session, conversation) = (at.0, conversation(&host, at).await?);
    let key = key.unwrap_or_else(|| new_key(&host, "steer"));
    let late = match late {
        Late::FollowUp => submission::Late::FollowUp,
        Late::Return => submission::Late::Return,
    };
    let input = Input::text(text).request(&key).when_busy(WhenBusy::Steer { late, declining });
    let letter = Letter::Submit { conversation, input };
    let Some(came) = ask(&host, Asking { session, letter, key: key.clone(), then: Then::Rest }).await? else {
        return Ok(Exit::Answered);
    };
    let record = find(&host, session, (conversation, &key, came)).await?;
    say(&format!("{}: {}", clean::line(&key), became(&record, session, came)?))?;
    Ok(Exit::Answered)
}

async fn find(
    host: &Host,
    session: SessionId,
    (conversation, key, came): (ConversationId, &str, Came),
) -> Result<SubmissionRecord, Failure> {
    let only = match came.id() {
        Some(id) => SubmissionFilter::Id(SubmissionId(id)),
        None => SubmissionFilter::Request(conversation, key.into()),
    };
    let found = host.harness.opener().store.submissions(SubmissionQuery { session, only }).await?.pop();
    found.ok_or_else(|| {
        everturn::Error::new(ErrorKind::NotFound, "look for what was said: it was trimmed").into()
    })
}

/// What became of what was said.
fn became(record: &SubmissionRecord, session: SessionId, came: Came) -> Result<String, Failure> {
    let goes_on = came.goes_on(session);
    Ok(match &record.state {
        SubmissionState::Queued(_) => {
            format!("it waits for the next request of the turn that runs; {goes_on}")
        }
        SubmissionState::Placed(place) => format!("{}; {goes_on}", placed(*place)),
        SubmissionState::Settled { end: End::Returned { reason }, .. } => {
            let message =
                format!("{}: it was given back: {reason}", record.request.as_deref().unwrap_or_default());
            return Err(Failure { exit: Exit::Failed, message });
        }
        SubmissionState::Settled { place, end } => {
            let place = place.map_or(String::new(), |place| format!("{}; ", placed(place)));
            let end = match end {
                End::Answered => "that turn was answered".into(),
                End::Cancelled => "that turn was cancelled".into(),
                End::Withdrawn => "it was withdrawn".into(),
                End::Failed { reason } => format!("that turn failed: {}", clean::line(reason)),
                _ => "it has ended".into(),
            };
            format!("{place}{end} (`everturn show {session}`)")
        }
    })
}

fn placed(place: Placed) -> String {
    let Placed { turn, step, .. } = place;
    match step {
        1 => format!("no turn ran, so it begins turn {turn}"),
        step => format!("turn {turn} has it before its request {step}"),
    }
}
