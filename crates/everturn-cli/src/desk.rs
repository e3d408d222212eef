//! Who answers what a turn asks while it runs here.
//!
//! The question is committed before anyone here hears of it, and may be decided elsewhere meanwhile: a desk looks at what is
//! open and decides like everybody else. No step of the call waits for it.

use std::{
    collections::HashSet,
    convert::Infallible,
    future::pending,
    io::{self, BufRead, IsTerminal, Write},
};

use everturn::{
    LiveSession,
    approval::{ApprovalRecord, Decision, Question},
    clean,
    id::ApprovalId,
    submission::LOCAL,
};
use tokio::task::JoinHandle;

use crate::question::{answers, headline, lines, read, said};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Desk {
    /// Whoever sits at the terminal.
    Terminal,
    /// Whoever decides it from elsewhere; it waits.
    Elsewhere,
    /// Nobody: questions to a person are refused.
    Nobody,
}

impl Desk {
    /// The desk of a question that was asked from a terminal, or from a script that lets it wait, or that does not.
    pub(crate) fn of(waits: bool) -> Self {
        Self::at_terminal().unwrap_or(if waits { Self::Elsewhere } else { Self::Nobody })
    }

    /// The terminal, if there is one to ask and to be answered at.
    pub(crate) fn at_terminal() -> Option<Self> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then_some(Self::Terminal)
    }

    /// Whether what only a person can say may be asked.
    pub(crate) fn can_ask(self) -> bool {
        self != Self::Nobody
    }

    /// Whether a question that is open is seen to, or waited for.
    pub(crate) fn sees_to(self, open: &ApprovalRecord) -> bool {
        self.can_ask() || matches!(open.question, Question::Person { .. })
    }
}

/// Sees to what is asked for as long as it is polled. Without a desk what is open stays so.
pub(crate) async fn attend(session: &LiveSession, desk: Option<Desk>) -> Infallible {
    let Some(desk) = desk else { return pending().await };
    let (mut seen, mut keys) = (HashSet::new(), Keys::default());
    let mut graphs = session.task_graph();
    loop {
        let new = session.open_approvals().into_iter().find(|open| seen.insert(open.id));
        match (new, desk) {
            (Some(open), Desk::Terminal) => ask(session, &open, &mut keys).await,
            (Some(open), Desk::Elsewhere) => tell(session, &open),
            (Some(open), Desk::Nobody) => refuse(session, &open).await,
            (None, _) if graphs.next().await.is_err() => return pending().await,
            (None, _) => {}
        }
    }
}

/// Says that something waits.
fn tell(session: &LiveSession, open: &ApprovalRecord) {
    let (id, asked) = (session.id(), clean::line(&headline(&open.question)));
    eprintln!("everturn: it waits for a decision: {asked} (`everturn approve {id} {}`)", open.id);
}

/// Refuses what only a person can say, where there is none. A call is policy's business.
async fn refuse(session: &LiveSession, open: &ApprovalRecord) {
    if let Question::Person { .. } = open.question {
        let no = Decision::Deny { reason: "nobody can be asked here".into() };
        // Somebody else was faster.
        let _ = session.decide(open.id, no, LOCAL).await;
    }
}

/// Asks at the terminal until it is decided, here or elsewhere.
async fn ask(session: &LiveSession, open: &ApprovalRecord, keys: &mut Keys) {
    eprintln!();
    lines(open).iter().for_each(|line| eprintln!("{line}"));
    while is_open(session, open.id) {
        eprint!("{} > ", answers(&open.question));
        let _ = io::stderr().flush();
        let line = tokio::select! {
            line = keys.next() => line,
            () = closed(session, open.id) => {
                eprintln!("\napproval {} was decided elsewhere", open.id);
                return;
            }
        };
        let Some(line) = line else {
            eprintln!("left open; Ctrl-C cancels the turn");
            return tell(session, open);
        };
        match read(&open.question, &line) {
            Ok(decision) => decide(session, open, decision).await,
            Err(hint) => eprintln!("{}", clean::line(&hint)),
        }
    }
}

async fn decide(session: &LiveSession, open: &ApprovalRecord, decision: Decision) {
    let told = said(&decision);
    match session.decide(open.id, decision, LOCAL).await {
        Ok(()) => eprintln!("{told}"),
        Err(error) => eprintln!("{}", clean::line(&error.to_string())),
    }
}

fn is_open(session: &LiveSession, id: ApprovalId) -> bool {
    session.open_approvals().iter().any(|open| open.id == id)
}

/// Returns when an approval is no longer open.
async fn closed(session: &LiveSession, id: ApprovalId) {
    let mut graphs = session.task_graph();
    while is_open(session, id) {
        if graphs.next().await.is_err() {
            return;
        }
    }
}

/// Lines that are typed, read on a thread that may wait. Waiting can be given up, and loses no line.
#[derive(Default)]
struct Keys {
    reading: Option<JoinHandle<Option<String>>>,
}

impl Keys {
    /// The next line; none at the end.
    async fn next(&mut self) -> Option<String> {
        let reading = self.reading.get_or_insert_with(|| {
            tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                let read = io::stdin().lock().read_line(&mut line).ok()?;
                (read > 0).then_some(line)
            })
        });
        let line = reading.await.ok().flatten();
        self.reading = None;
        line
    }
}
