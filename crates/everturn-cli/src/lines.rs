//! Lines from the keyboard of a chat.

use std::io::{self, IsTerminal};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{DefaultEditor, error::ReadlineError};
use tokio::task::JoinHandle;

use crate::exit::Failure;

/// What comes from the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Line(String),
    /// Ctrl-C, while a line is edited.
    Interrupt,
    /// Ctrl-D, or the end of a file.
    End,
}

/// Lines from the keyboard, read on a thread that may wait.
pub(crate) struct Lines {
    editor: Option<DefaultEditor>,
    reading: Option<JoinHandle<(rustyline::Result<String>, DefaultEditor)>>,
}

impl Lines {
    pub(crate) fn new() -> Result<Self, Failure> {
        let editor = DefaultEditor::new().map_err(|fault| Failure::usage(format!("read lines: {fault}")))?;
        Ok(Self { editor: Some(editor), reading: None })
    }

    /// Whether a person types them.
    pub(crate) fn are_typed() -> bool {
        io::stdin().is_terminal()
    }

    /// The next one, behind a prompt. Waiting can be given up, and loses no line.
    pub(crate) async fn next(&mut self, prompt: &'static str) -> Result<Typed, Failure> {
        if let Some(editor) = self.editor.take() {
            self.reading = Some(tokio::task::spawn_blocking(move || read_line(editor, prompt)));
        }
        let Some(reading) = &mut self.reading else { return Ok(Typed::End) };
        let read = reading.await;
        self.reading = None;
        let (line, editor) = read.map_err(|fault| Failure::usage(format!("read a line: {fault}")))?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(fault) => Err(Failure::usage(format!("read a line: {fault}"))),
        }
    }
}

fn read_line(mut editor: DefaultEditor, prompt: &str) -> (rustyline::Result<String>, DefaultEditor) {
    let prompt = if Lines::are_typed() { prompt } else { "" };
    let line = editor.readline(prompt);
    if let Ok(line) = &line {
        // A history that is full or off is no reason to refuse the line.
        let _ = editor.add_history_entry(line);
    }
    (line, editor)
}

/// The terminal as it was before lines were edited: a thread that still waits for a line cannot put it back.
pub(crate) struct Terminal(Option<Termios>);

impl Terminal {
    pub(crate) fn save() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    pub(crate) fn restore(self) {
        if let Some(saved) = self.0 {
            // A terminal that has gone needs nothing.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &saved);
        }
    }
}
