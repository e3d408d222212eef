//! Following a submission to its end, in whatever form was asked for, whatever is pressed meanwhile.

use std::io;

use everturn::{Answer, LiveSession, Submission, submission::End};
use serde_json::json;

use crate::{
    exit::{Exit, Failure},
    screen::{Screen, say, try_put},
    signal::{Signal, Signals},
};

/// In what form events are shown.
pub(crate) enum Form {
    /// Nothing until the answer, which is printed.
    Answer,
    /// As a person watches.
    Screen(Box<Screen>),
    /// As JSON lines.
    Json,
}

impl Form {
    /// The form of a question's answer: streamed to a person who watches, else just the answer.
    pub(crate) fn of(json: bool) -> Self {
        match json {
            true => Self::Json,
            false if Screen::is_watched() => Self::Screen(Box::new(Screen::new())),
            false => Self::Answer,
        }
    }
}

/// Shows what happens to a submission until it ends, and tells how.
pub(crate) async fn follow(
    session: &LiveSession,
    asked: &Submission,
    signals: &mut Signals,
    form: &mut Form,
) -> Result<Exit, Failure> {
    if let Form::Json = form {
        let _ = line(&json!({"type": "session", "session": session.id(), "submission": asked.id()}));
    }
    let mut events = asked.events();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => show(&event?, form),
                None => break,
            },
            signal = signals.next() => match signal {
                Signal::Interrupt => drop(asked.cancel().await?),
                Signal::Terminate => {
                    session.close().await?;
                    return Err(Failure::stopped(session.id()));
                }
            },
        }
    }
    tell(session, &asked.answer().await?, form)
}

fn show(event: &everturn::Event, form: &mut Form) {
    match form {
        Form::Answer => {}
        Form::Screen(screen) => screen.event(&event.kind),
        // What cannot be written now is no reason to stop the work; the end says whether it could.
        Form::Json => {
            let _ = line(event);
        }
    }
}

/// Prints the end, and gives its exit code.
fn tell(session: &LiveSession, answer: &Answer, form: &mut Form) -> Result<Exit, Failure> {
    let told = match form {
        Form::Screen(screen) => {
            screen.end_line();
            Ok(())
        }
        Form::Answer if answer.is_answered() => say(&answer.text),
        Form::Answer => Ok(()),
        Form::Json => line(&json!({
            "type": "answer", "end": answer.end, "text": answer.text, "turn": answer.turn, "steps": answer.steps,
            "usage": answer.total, "failure": answer.failure,
        }))
        .map_err(|fault| Failure::output(&fault)),
    };
    told.map_err(|mut failure| {
        let id = session.id();
        failure.message.push_str(&format!("; `everturn show {id}` has what was said"));
        failure
    })?;
    exit(answer)
}

/// The exit code of an answer.
pub(crate) fn exit(answer: &Answer) -> Result<Exit, Failure> {
    match &answer.end {
        End::Answered | End::Written { .. } => Ok(Exit::Answered),
        End::Cancelled | End::Withdrawn => {
            Err(Failure { exit: Exit::Cancelled, message: "cancelled".into() })
        }
        End::Failed { reason } | End::Returned { reason } => {
            let message = answer.error().unwrap_or(reason);
            Err(Failure { exit: Exit::Failed, message: format!("the turn failed: {message}") })
        }
    }
}

/// Prints a JSON line.
pub(crate) fn line(value: &impl serde::Serialize) -> io::Result<()> {
    try_line(value).map(drop)
}

/// The same; gives whether anyone reads it.
pub(crate) fn try_line(value: &impl serde::Serialize) -> io::Result<bool> {
    let text = serde_json::to_string(value).expect("events have a JSON form");
    try_put(&(text + "\n"))
}
