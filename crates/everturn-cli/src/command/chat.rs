//! `everturn`: a chat in the terminal.

use std::io::{self, IsTerminal};

use everturn::{AgentChange, Input, LiveSession};
use rustyline::{DefaultEditor, error::ReadlineError};

use crate::{
    args::{Place, Which},
    exit::{Exit, Failure},
    follow::{Form, follow},
    host::{Host, Missing},
    screen::{Screen, cost},
};

const HELP: &str = "\
/model MODEL   answer with another model (demo, chat/MODEL, chat/MODEL@http://HOST/v1)
/turns         the turns so far; /branch TURN goes back to one
/usage         what this conversation has cost
/help          this
/quit          leave; the session is kept
Ctrl-C ends a turn that runs.";

pub(crate) async fn run(place: &Place, which: &Which) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Create).await?;
    let is_new = which.session.is_none() && !which.r#continue;
    let mut session = if is_new { None } else { Some(host.session(which, "").await?) };
    let mut form = Form::Screen(Box::new(Screen::new()));
    greet(&host, session.as_ref(), &mut form);
    // What was cut off goes on before anything new is asked.
    if let Some(session) = &session {
        for asked in session.open_submissions() {
            report(follow(session, &asked, &mut form).await)?;
        }
    }
    let mut editor =
        Some(DefaultEditor::new().map_err(|fault| Failure::usage(format!("read lines: {fault}")))?);
    loop {
        let (line, again) = read_line(editor.take()).await?;
        editor = again;
        let Some(line) = line else { break };
        let line = line.trim();
        match line.strip_prefix('/') {
            _ if line.is_empty() => {}
            Some("quit" | "exit") => break,
            Some(command) => {
                if let Err(failure) = act(command, session.as_ref(), &mut form).await {
                    note(&mut form, &failure.message);
                }
            }
            None => {
                let session = match &mut session {
                    Some(session) => session,
                    none => none.insert(host.session(which, line).await?),
                };
                let asked = session.current().await?.submit(Input::text(line)).await?;
                report(follow(session, &asked, &mut form).await)?;
            }
        }
    }
    if let Some(session) = session {
        session.close().await?;
        note(&mut form, &format!("everturn chat --session {} goes on here", session.id()));
    }
    Ok(Exit::Answered)
}

/// A turn that failed, or was cancelled, does not end the chat; a session that is given up does.
fn report(ended: Result<Exit, Failure>) -> Result<(), Failure> {
    match ended {
        Ok(_) => Ok(()),
        Err(Failure { exit: Exit::Failed | Exit::Cancelled, .. }) => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn greet(host: &Host, session: Option<&LiveSession>, form: &mut Form) {
    note(form, &format!("everturn in {}; /help says what else there is", host.config.root.display()));
    match session {
        Some(session) => note(form, &format!("session {}", session.id())),
        None if host.is_demo() => {
            note(
                form,
                "no model is configured, so the built-in demo model answers (it is no language model)",
            );
        }
        None => {}
    }
}

fn note(form: &mut Form, text: &str) {
    if let Form::Screen(screen) = form {
        screen.note(text);
    }
}

/// Reads a line on a thread that may wait; none at the end of input.
async fn read_line(
    editor: Option<DefaultEditor>,
) -> Result<(Option<String>, Option<DefaultEditor>), Failure> {
    let Some(mut editor) = editor else {
        return Ok((None, None));
    };
    let prompt = if io::stdin().is_terminal() { "> " } else { "" };
    let reading = tokio::task::spawn_blocking(move || {
        let line = editor.readline(prompt);
        if let Ok(line) = &line {
            // A history that is full or off is no reason to refuse the line.
            let _ = editor.add_history_entry(line);
        }
        (line, editor)
    });
    let (line, editor) = reading.await.map_err(|fault| Failure::usage(format!("read a line: {fault}")))?;
    match line {
        Ok(line) => Ok((Some(line), Some(editor))),
        // Ctrl-C on an empty prompt and Ctrl-D both leave.
        Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok((None, Some(editor))),
        Err(fault) => Err(Failure::usage(format!("read a line: {fault}"))),
    }
}

/// Carries out what was said behind a slash.
async fn act(command: &str, session: Option<&LiveSession>, form: &mut Form) -> Result<(), Failure> {
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    if word == "help" {
        HELP.lines().for_each(|line| note(form, line));
        return Ok(());
    }
    let session = session.ok_or_else(|| Failure::usage("nothing was asked yet; ask first"))?;
    match word {
        "model" => {
            let model = Some(rest.trim().parse()?);
            session.current().await?.configure(AgentChange { model, thinking: None }).await?;
            note(form, &format!("{} answers from now on", rest.trim()));
        }
        "turns" => {
            for turn in session.turns().await? {
                let parent = turn.parent.map_or(String::new(), |parent| format!(" after {parent}"));
                let total = cost(&turn.record.total);
                note(form, &format!("{}{parent}: {}, {total}", turn.record.turn, turn.record.outcome.word()));
            }
        }
        "branch" => {
            session.branch_from(rest.trim().parse()?).await?;
            note(form, &format!("back at the end of turn {}", rest.trim()));
        }
        "usage" => {
            let current = session.current().await?.id();
            note(form, &cost(&session.usage_of(current).await?));
        }
        _ => {
            return Err(Failure::usage(format!("there is no /{word}; /help lists what there is")));
        }
    }
    Ok(())
}
