//! `everturn approve` and `everturn deny`: what waits is decided, whoever runs its session.

use everturn::{
    Error, Letter,
    approval::{ApprovalRecord, Decision, Question},
    clean,
    id::SessionId,
    storage::ApprovalQuery,
};

use crate::{
    args::{self, How, Place},
    asking::{Asking, Then, ask, new_key},
    exit::{Exit, Failure},
    host::{Host, Missing, explain},
    question::{headline, said},
    screen::say,
};

/// What `approve` decides.
pub(crate) fn allowed(how: How) -> Decision {
    match how {
        How { session: true, .. } => Decision::AllowForSession,
        How { did_not_happen: true, .. } => Decision::DidNotHappen,
        How { edit: Some(arguments), .. } => Decision::Edit { arguments },
        How { answer: Some(text), .. } => Decision::Answer { text },
        How { happened: Some(text), .. } => Decision::Happened { text },
        _ => Decision::Allow,
    }
}

/// What `deny` decides.
pub(crate) fn denied(reason: Option<String>) -> Decision {
    reason.map_or(Decision::Stop, |reason| Decision::Deny { reason })
}

pub(crate) async fn run(place: &Place, which: args::Question, decision: Decision) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let session = which.id;
    let record = find(&host, which).await?;
    if !record.question.takes(&decision) {
        let message =
            format!("decide approval {}: that is no answer to it: {}", record.id, fitting(&record.question));
        return Err(Failure::usage(message));
    }
    let (approval, told) = (record.id, said(&decision));
    let letter = Letter::Decide { approval, decision };
    let key = new_key(&host, "decide");
    let Some(came) = ask(&host, Asking { session, letter, key, then: Then::Rest }).await? else {
        return Ok(Exit::Answered);
    };
    say(&format!("approval {approval}: {told}; {}", came.goes_on(session)))?;
    Ok(Exit::Answered)
}

/// The approval that is meant; one that is no longer open is refused by who decides.
async fn find(host: &Host, which: args::Question) -> Result<ApprovalRecord, Failure> {
    let args::Question { id, approval } = which;
    host.harness.reader(id).await.map_err(explain)?;
    let store = &host.harness.opener().store;
    if let Some(approval) = approval {
        let query = ApprovalQuery { limit: 1, ..ApprovalQuery::of(id).from(approval) };
        let found = store.approvals(query).await?.pop().filter(|row| row.record.id == approval);
        return found.map(|row| row.record).ok_or_else(|| {
            Error::not_found(format!("decide approval {approval} of session {id}: there is none")).into()
        });
    }
    let mut open: Vec<_> = store.approvals(ApprovalQuery::open_in(id)).await?;
    match open.len() {
        0 => Err(Error::not_found(format!("decide in session {id}: nothing waits for a decision")).into()),
        1 => Ok(open.remove(0).record),
        count => {
            for row in &open {
                eprintln!("everturn: {}  {}", row.record.id, clean::line(&headline(&row.record.question)));
            }
            Err(Failure::usage(several(id, count)))
        }
    }
}

fn several(session: SessionId, count: usize) -> String {
    format!(
        "decide in session {session}: {count} questions are open; say which, as `everturn approve {session} N`"
    )
}

/// What is an answer to a question.
fn fitting(question: &Question) -> &'static str {
    match question {
        Question::Call { .. } => {
            "approve it as it is, with --session or with --edit JSON, or deny it with --reason"
        }
        Question::Unknown { .. } => {
            "approve it with --happened [TEXT] or --did-not-happen, or deny it with --stop"
        }
        Question::Person { .. } => "approve it with --answer TEXT, or deny it with --reason",
    }
}
