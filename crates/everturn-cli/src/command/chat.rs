//! `everturn`: a chat in the terminal.

use std::io::{self, IsTerminal};

use everturn::{AgentChange, Branch, Input, LiveSession, Submission};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{DefaultEditor, error::ReadlineError};
use tokio::task::JoinHandle;

use crate::{
    args::{Place, Which},
    exit::{Exit, Failure},
    follow::{Form, follow},
    host::{Host, Missing},
    screen::{Screen, cost},
    signal::{Signal, Signals},
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
    let session = if which.is_new() { None } else { Some(host.session(which, "").await?) };
    let form = Form::Screen(Box::new(Screen::new()));
    let mut chat = Chat { host, session, form, signals: Signals::listen()? };
    chat.greet(which);
    // What was cut off goes on before anything new is asked.
    for asked in chat.session.as_ref().map_or_else(Vec::new, LiveSession::open_submissions) {
        chat.follow(&asked).await?;
    }
    let terminal = Terminal::save();
    let mut lines = Lines::new()?;
    let exit = loop {
        tokio::select! {
            line = lines.next() => match line? {
                Some(line) if line.trim() == "/quit" || line.trim() == "/exit" => break Exit::Answered,
                Some(line) => chat.take(line.trim()).await?,
                None => break Exit::Answered,
            },
            signal = chat.signals.next() => if signal == Signal::Terminate { break Exit::Stopped },
        }
    };
    terminal.restore();
    chat.end().await?;
    Ok(exit)
}

/// A chat under way.
struct Chat {
    host: Host,
    /// The session; none before anything was asked.
    session: Option<LiveSession>,
    form: Form,
    signals: Signals,
}

impl Chat {
    /// Takes a line: a command, or something to ask.
    async fn take(&mut self, line: &str) -> Result<(), Failure> {
        match line.strip_prefix('/') {
            _ if line.is_empty() => {}
            Some(command) => {
                if let Err(failure) = self.act(command).await {
                    self.note(&failure.message);
                }
            }
            None => {
                let session = match &self.session {
                    Some(session) => session.clone(),
                    None => self.host.session(&Which::default(), line).await?,
                };
                self.session = Some(session.clone());
                match session.current().await?.submit(Input::text(line)).await {
                    Ok(asked) => self.follow(&asked).await?,
                    Err(error) => match Failure::from(error) {
                        failure if failure.exit == Exit::Failed => self.note(&failure.message),
                        failure => return Err(failure),
                    },
                }
            }
        }
        Ok(())
    }

    /// Follows a submission. A turn that failed or was cancelled does not end the chat; a session that is given up does.
    async fn follow(&mut self, asked: &Submission) -> Result<(), Failure> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        match follow(&session, asked, &mut self.signals, &mut self.form).await {
            Err(failure) if matches!(failure.exit, Exit::Failed | Exit::Cancelled) => {
                self.note(&failure.message);
            }
            Err(failure) => return Err(failure),
            Ok(_) => {}
        }
        Ok(())
    }

    fn greet(&mut self, which: &Which) {
        self.note(&format!("everturn in {}; /help says what else there is", self.host.config.root.display()));
        if let Some(id) = self.session.as_ref().map(|session| session.id()) {
            self.note(&format!("session {id}"));
        }
        if let Some(notice) = self.host.notice(which) {
            self.note(notice);
        }
    }

    fn note(&mut self, text: &str) {
        if let Form::Screen(screen) = &mut self.form {
            screen.note(text);
        }
    }

    async fn end(mut self) -> Result<(), Failure> {
        if let Some(session) = self.session.take() {
            session.close().await?;
            self.note(&format!("everturn chat --session {} goes on here", session.id()));
        }
        Ok(())
    }

    /// Carries out what was said behind a slash.
    async fn act(&mut self, command: &str) -> Result<(), Failure> {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        if word == "help" {
            HELP.lines().for_each(|line| self.note(line));
            return Ok(());
        }
        let asked_first = || Failure::usage("nothing was asked yet; ask first");
        let session = self.session.clone().ok_or_else(asked_first)?;
        match word {
            "model" => {
                let model = Some(rest.trim().parse()?);
                session
                    .current()
                    .await?
                    .configure(AgentChange { model, thinking: None, ..AgentChange::default() })
                    .await?;
                self.note(&format!("{} answers from now on", rest.trim()));
            }
            "turns" => {
                for turn in session.turns().await? {
                    let parent = turn.parent.map_or(String::new(), |parent| format!(" after {parent}"));
                    let total = cost(&turn.record.total);
                    self.note(&format!(
                        "{}{parent}: {}, {total}",
                        turn.record.turn,
                        turn.record.outcome.word()
                    ));
                }
            }
            "branch" => {
                session.branch_from(rest.trim().parse()?, Branch::default()).await?;
                self.note(&format!("back at the end of turn {}", rest.trim()));
            }
            "usage" => {
                let current = session.current().await?.id();
                self.note(&cost(&session.usage_of(current).await?));
            }
            _ => {
                return Err(Failure::usage(format!("there is no /{word}; /help lists what there is")));
            }
        }
        Ok(())
    }
}

/// Lines from the keyboard, read on a thread that may wait.
struct Lines {
    editor: Option<DefaultEditor>,
    reading: Option<JoinHandle<(rustyline::Result<String>, DefaultEditor)>>,
}

impl Lines {
    fn new() -> Result<Self, Failure> {
        let editor = DefaultEditor::new().map_err(|fault| Failure::usage(format!("read lines: {fault}")))?;
        Ok(Self { editor: Some(editor), reading: None })
    }

    /// The next line; none at the end. Waiting can be given up, and loses no line.
    async fn next(&mut self) -> Result<Option<String>, Failure> {
        if let Some(editor) = self.editor.take() {
            self.reading = Some(tokio::task::spawn_blocking(move || read_line(editor)));
        }
        let Some(reading) = &mut self.reading else { return Ok(None) };
        let read = reading.await;
        self.reading = None;
        let (line, editor) = read.map_err(|fault| Failure::usage(format!("read a line: {fault}")))?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(Some(line)),
            // Ctrl-C on an empty prompt and Ctrl-D both leave.
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
            Err(fault) => Err(Failure::usage(format!("read a line: {fault}"))),
        }
    }
}

fn read_line(mut editor: DefaultEditor) -> (rustyline::Result<String>, DefaultEditor) {
    let prompt = if io::stdin().is_terminal() { "> " } else { "" };
    let line = editor.readline(prompt);
    if let Ok(line) = &line {
        // A history that is full or off is no reason to refuse the line.
        let _ = editor.add_history_entry(line);
    }
    (line, editor)
}

/// The terminal as it was before lines were edited: a thread that still waits for a line cannot put it back.
struct Terminal(Option<Termios>);

impl Terminal {
    fn save() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    fn restore(self) {
        if let Some(saved) = self.0 {
            // A terminal that has gone needs nothing.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &saved);
        }
    }
}
