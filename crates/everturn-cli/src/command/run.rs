//! `everturn run PROMPT`: one turn, its answer on standard output.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
};

use everturn::{Input, LiveSession, Submission, budget::Budget, json::RawJson};

use super::resume::{stuck, unanswered};
use crate::{
    args::{Place, Rules, Which},
    desk::{Desk, attend},
    exit::{Exit, Failure},
    follow::{Form, exit, follow},
    host::{Host, Missing},
    screen::Screen,
    signal::{Signal, Signals},
};

/// How much of standard input is put behind the prompt, in bytes.
const STDIN_MAX: u64 = 512 << 10;

/// What is asked, and how it is worked on.
pub(crate) struct Asked {
    pub(crate) prompt: String,
    pub(crate) json: bool,
    /// Whether what policy asks about waits, instead of being denied.
    pub(crate) ask: bool,
    /// The file of the schema that the answer has to fit.
    pub(crate) schema: Option<PathBuf>,
    pub(crate) budget: Option<Budget>,
    pub(crate) rules: Rules,
}

pub(crate) async fn run(place: &Place, which: &Which, asked: Asked) -> Result<Exit, Failure> {
    let Asked { prompt, json, ask, schema, budget, rules } = asked;
    let schema = schema.as_deref().map(read_schema).transpose()?;
    let prompt = with_stdin(prompt)?;
    if prompt.trim().is_empty() {
        return Err(Failure::usage("run: the prompt is empty; say what you want to know"));
    }
    let missing = if which.is_new() { Missing::Create } else { Missing::Refuse };
    let host = Host::open(place, missing).await?;
    let desk = Desk::of(ask);
    host.judge_by(rules, desk.can_ask());
    let session = host.session(which, &prompt).await?;
    if let Some(notice) = host.notice(which) {
        eprintln!("everturn: {notice}");
    }
    let is_structured = schema.is_some() && !json;
    let mut input = Input::text(prompt).budget(budget.unwrap_or_default());
    input.options.schema = schema;
    let submission = session.current().await?.submit(input).await?;
    let mut signals = Signals::listen()?;
    let answered = async {
        match is_structured {
            true => value(&session, &submission, &mut signals).await,
            false => follow(&session, &submission, &mut signals, &mut Form::of(json)).await,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = answered => ended,
        never = attend(&session, Some(desk)) => match never {},
        () = stuck(&session, &submission, Some(desk)) => Err(unanswered(&session)),
    };
    // How the question ended is what counts. A lease that could not be given back ends with this process.
    let _ = session.close().await;
    ended
}

/// Waits for an answer that is JSON, and prints that and nothing else.
async fn value(session: &LiveSession, asked: &Submission, signals: &mut Signals) -> Result<Exit, Failure> {
    let answer = loop {
        tokio::select! {
            answer = asked.answer() => break answer?,
            signal = signals.next() => match signal {
                Signal::Interrupt => drop(asked.cancel().await?),
                Signal::Terminate => {
                    session.close().await?;
                    return Err(Failure::stopped(session.id()));
                }
            },
        }
    };
    let ended = exit(&answer)?;
    let mut screen = Screen::new();
    screen.exact(answer.read::<RawJson>()?.get());
    screen.delivered()?;
    Ok(ended)
}

fn read_schema(path: &Path) -> Result<RawJson, Failure> {
    let wrong = |what: String| Failure::usage(format!("read the schema {}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|fault| wrong(fault.to_string()))?;
    let schema = RawJson::parse(text.trim()).map_err(|error| wrong(error.to_string()))?;
    match schema.read::<serde_json::Value>() {
        Ok(serde_json::Value::Object(_)) => Ok(schema),
        Ok(_) => Err(wrong("it is no JSON object, and a schema is one".into())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn with_stdin(prompt: String) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(prompt);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(STDIN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > STDIN_MAX {
        let message =
            format!("run: standard input has more than {STDIN_MAX} bytes; put it in a file and name it");
        return Err(Failure::usage(message));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(if text.trim().is_empty() { prompt } else { format!("{prompt}\n\n{text}") })
}
