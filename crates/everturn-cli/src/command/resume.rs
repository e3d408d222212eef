//! `everturn resume ID`: a session goes on where it was cut off.

use std::future::pending;

use everturn::{
    LiveSession, Submission, clean,
    id::SessionId,
    task::{Status, TaskView},
};

use super::tasks::state;
use crate::{
    args::{Place, Rules},
    asking::wait,
    desk::{Desk, attend},
    exit::{Exit, Failure},
    follow::{Form, follow},
    host::{Host, Missing},
    question::headline,
    signal::Signals,
};

/// How a session goes on.
pub(crate) struct Resume {
    pub(crate) json: bool,
    pub(crate) rules: Rules,
}

pub(crate) async fn run(place: &Place, id: SessionId, resume: Resume) -> Result<Exit, Failure> {
    let Resume { json, rules } = resume;
    let host = Host::open(place, Missing::Refuse).await?;
    // What nobody can be asked about here waits for somebody elsewhere.
    host.judge_by(rules, true);
    let session = host.reopen(id).await?;
    // What others have left is taken first: what it begins is followed.
    session.resume();
    let is_taken = || async {
        let is_empty = session.mail().await?.is_empty();
        // What the store has is known here once the heads are the same.
        Ok((is_empty && session.inspect().await?.head == session.head()).then_some(()))
    };
    wait(&host, is_taken).await?;
    let open = session.open_submissions();
    if open.is_empty() && session.inspect().await?.tasks.is_empty() {
        eprintln!("everturn: nothing in session {id} was cut off; `everturn run --session {id}` asks on");
    }
    let desk = Desk::at_terminal();
    let (mut form, mut signals) = (Form::of(json), Signals::listen()?);
    let mut ended = Ok(Exit::Answered);
    for asked in open {
        // The first failure is told at the end; what follows is waited for all the same, unless the session is gone.
        let one = tokio::select! {
            biased;
            one = follow(&session, &asked, &mut signals, &mut form) => one,
            never = attend(&session, desk) => match never {},
            () = stuck(&session, &asked, desk) => Err(unanswered(&session)),
        };
        let is_gone = matches!(&one, Err(failure) if failure.exit == Exit::Stopped);
        ended = ended.and(one);
        if is_gone {
            return ended;
        }
    }
    let rested = rest(&session, &mut signals).await;
    // How the work ended is what counts. A lease that could not be given back ends with this process.
    let _ = session.close().await;
    ended.and(rested)
}

/// Lets all go on that can, and tells of what cannot.
async fn rest(session: &LiveSession, signals: &mut Signals) -> Result<Exit, Failure> {
    tokio::select! {
        quiescent = session.quiescent() => quiescent?,
        _ = signals.next() => {
            let message = format!("stopped in mid-work; `everturn resume {}` goes on", session.id());
            return Err(Failure { exit: Exit::Stopped, message });
        }
    }
    let left = session.inspect().await?.tasks;
    left.iter().filter_map(|view| told(session.id(), view)).for_each(|text| {
        eprintln!("everturn: {}", clean::line(&text));
    });
    match left.iter().filter(|view| is_blocked(view)).count() {
        0 => Ok(Exit::Answered),
        count => {
            let what = if count == 1 { "1 task waits".into() } else { format!("{count} tasks wait") };
            let message = format!("{what} for code that this command does not have");
            Err(Failure { exit: Exit::Failed, message })
        }
    }
}

/// What to say of a task that is left: why it does not go on. Nothing, where that is another task.
fn told(session: SessionId, view: &TaskView) -> Option<String> {
    let id = view.record.id;
    let said = format!("task {id}, {}: {}", view.record.kind, state(view));
    match &view.status {
        Status::Blocked(_) | Status::Sleeping { .. } => Some(said),
        Status::Listening { signal, .. } => {
            Some(format!("{said} (`everturn signal {session} {id} {signal}` tells it)"))
        }
        _ => None,
    }
}

fn is_blocked(view: &TaskView) -> bool {
    matches!(view.status, Status::Blocked(_))
}

/// Why a question is not answered yet.
pub(super) fn unanswered(session: &LiveSession) -> Failure {
    let id = session.id();
    match session.open_approvals().first() {
        Some(open) => {
            let asked = headline(&open.question);
            let message = format!(
                "it waits for a decision: {asked} (`everturn approvals {id}`, `everturn approve {id} {}`)",
                open.id
            );
            Failure { exit: Exit::Waits, message }
        }
        None => {
            let message =
                format!("not answered yet, and nothing here can go on; `everturn tasks {id}` shows why");
            Failure { exit: Exit::Failed, message }
        }
    }
}

/// Returns when a submission has not ended and nothing that could end it runs, or will by itself.
pub(super) async fn stuck(session: &LiveSession, asked: &Submission, desk: Option<Desk>) {
    let mut graphs = session.task_graph();
    loop {
        // A session that is shut is told of by whoever follows the submission.
        let (Ok(()), Ok(graph)) = (session.quiescent().await, session.inspect().await) else {
            return pending().await;
        };
        let goes_on = |view: &TaskView| match &view.status {
            Status::Running | Status::Ready | Status::Stopping | Status::Sleeping { .. } => true,
            Status::Listening { until, .. } => until.is_some(),
            _ => false,
        };
        let is_open = session.open_submissions().iter().any(|open| open.id() == asked.id());
        let mut open = session.open_approvals().into_iter();
        let is_seen_to = open.any(|open| desk.is_some_and(|desk| desk.sees_to(&open)));
        if session.head() != graph.head {
            // What was seen is not of one moment.
            continue;
        }
        if is_open && !is_seen_to && !graph.tasks.iter().any(goes_on) {
            return;
        }
        if graphs.next().await.is_err() {
            return pending().await;
        }
    }
}
