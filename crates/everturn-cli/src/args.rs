//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};
use everturn::{
    Cursor,
    id::{EntryId, SessionId, TaskId},
    json::RawJson,
    model::ModelRef,
};

/// A durable agent: kill it anywhere, open its session by its id, and it goes on.
#[derive(Parser)]
#[command(
    name = "everturn",
    version,
    about,
    after_help = "Examples:\n  everturn                                   chat in this directory\n  \
                  everturn run \"which files are here?\"       one question, the answer on standard output\n  \
                  everturn run --continue \"and the largest?\" go on with the session that was used last\n  \
                  everturn sessions                          what is stored here\n  \
                  everturn demo                              see it killed and going on\n\n\
                  Exit codes: 0 answered or done, 1 it failed, or work cannot go on here, 2 wrong arguments or\n\
                  configuration, 3 not found, 4 the store cannot be used, 5 the session is open elsewhere,\n\
                  6 storage refused for now, 130 cancelled, 143 stopped in mid-turn (everturn resume\n\
                  goes on)."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Where to work, and with what.
#[derive(Clone, Default, Group)]
pub(crate) struct Place {
    /// The directory to work in: what the agent can read, and where the store is.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// The store: sqlite:PATH, or a path that ends in .db [default: .everturn/store.db in the root].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The model: demo, chat/MODEL, or chat/MODEL@http://HOST/v1.
    #[arg(long, global = true, value_name = "MODEL")]
    pub(crate) model: Option<ModelRef>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Chat in the terminal (what happens without a command).
    Chat(Which),
    /// Ask one question; the answer goes to standard output.
    #[command(
        after_help = "Examples:\n  everturn run \"which function under src returns the largest number?\"\n  \
                            git diff | everturn run \"explain this\" --model chat/gpt-5\n  \
                            everturn run --json \"list the files\" | jq .type"
    )]
    Run {
        /// The question. Standard input is put behind it, unless it is a terminal.
        prompt: String,
        /// Print events as JSON lines instead of the answer.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    /// List sessions, newest first.
    Sessions {
        /// How many at most.
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// Only sessions with this label; may be given several times.
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
        /// Print JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// Find messages that have all of some words, newest first.
    Search {
        /// The words.
        #[arg(required = true)]
        words: Vec<String>,
        /// Only in this session.
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        /// How many at most.
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// Print JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// Give a session a title, or labels that replace those it has.
    Label {
        /// The session.
        id: SessionId,
        /// What lists show.
        #[arg(long)]
        title: Option<String>,
        /// A label; none at all takes the labels away, unless a title is given.
        #[arg(value_name = "NAME=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
    },
    /// Write a session to a file, from which `restore` brings it back.
    Archive {
        /// The session.
        id: SessionId,
        /// The file; it must not exist.
        file: PathBuf,
        /// Delete the session when the file is written.
        #[arg(long)]
        delete: bool,
    },
    /// Bring a session back from the file that `archive` wrote.
    Restore {
        /// The file.
        file: PathBuf,
    },
    /// Delete a session for good.
    Delete {
        /// The session.
        id: SessionId,
        /// It cannot be undone: say so.
        #[arg(long, required = true)]
        yes: bool,
    },
    /// Take an entry's contents away for good: a secret that leaked. Its place and its hash stay.
    Purge {
        /// The session.
        id: SessionId,
        /// The entry, as `everturn show --ids` names it.
        entry: EntryId,
        /// It cannot be undone: say so.
        #[arg(long, required = true)]
        yes: bool,
    },
    /// Copy the whole store to a new file, while others go on.
    Backup {
        /// The file; it must not exist.
        file: PathBuf,
    },
    /// Remove what nobody needs, and give freed room back to the disk.
    Vacuum,
    /// Print a session's transcript.
    Show {
        /// The session.
        id: SessionId,
        /// Name each entry's id in front of it.
        #[arg(long)]
        ids: bool,
        /// Show instead what the model was told beside the messages: when it was told anew, and why.
        #[arg(long, conflicts_with = "ids")]
        epochs: bool,
    },
    /// Follow what happens in a session, whoever runs it, until Ctrl-C.
    ///
    /// Nothing is taken or changed. A session at rest is waited for.
    #[command(after_help = "Examples:\n  everturn watch ID                           as it comes\n  \
                            everturn watch ID --from CURSOR             what came since\n  \
                            everturn watch ID --json | jq -c .type      one event a line, each with its cursor")]
    Watch {
        /// The session.
        id: SessionId,
        /// Begin behind this place, as --json and the last line on standard error name it.
        #[arg(long, value_name = "CURSOR")]
        from: Option<Cursor>,
        /// Print JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// Show the branches of a session with their turns, and the sub-agents that work for them.
    Tree {
        /// The session.
        id: SessionId,
    },
    /// Show what a session's requests cost: by model, by conversation, by turn, and in all.
    Usage {
        /// The session; the one that was used last, without it.
        id: Option<SessionId>,
        /// Print JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// Show what a session works on: its tasks, what each does or waits for, and what hangs on what.
    ///
    /// Nothing is taken or changed: whether a task runs at this moment, only the process knows that runs it.
    #[command(
        after_help = "Examples:\n  everturn tasks                  of the session that was used last\n  \
                            everturn tasks ID --all         those that have ended too, with how\n  \
                            everturn tasks ID --json | jq -r 'select(.blocked) | .kind'"
    )]
    Tasks {
        /// The session; the one that was used last, without it.
        id: Option<SessionId>,
        /// Those that have ended too.
        #[arg(long)]
        all: bool,
        /// Print JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// Tell a task that something happened, whichever process runs it.
    ///
    /// The signal is stored, and taken once where the session runs, now or next. It may come before the task waits for it.
    #[command(after_help = "Examples:\n  everturn signal ID 7 answer true\n  \
                            everturn signal ID 7 paid '{\"cents\": 1250}' --key invoice-7    twice is once")]
    Signal {
        /// The session.
        id: SessionId,
        /// The task, as `everturn tasks` names it.
        task: TaskId,
        /// The signal's name.
        name: String,
        /// What it says, as JSON; null, without it.
        #[arg(value_name = "JSON", value_parser = payload, allow_negative_numbers = true)]
        payload: Option<RawJson>,
        /// Your own name of it: signalling again under it changes nothing, and says what became of it.
        #[arg(long)]
        key: Option<String>,
    },
    /// Let a session go on where it was cut off, and say of what is left why it does not go on.
    Resume {
        /// The session.
        id: SessionId,
        /// Print events as JSON lines instead of the answer.
        #[arg(long)]
        json: bool,
    },
    /// Look after the store: what it is, and with --verify whether everything in it agrees with itself.
    Doctor {
        /// Read every record again and prove it; names all that is wrong, changes nothing.
        #[arg(long)]
        verify: bool,
    },
    /// See it work: read files, stream, branch, be killed, and go on. Needs no key and no network.
    Demo {
        /// Runs the part that is killed, in this directory.
        #[arg(long, hide = true, value_name = "DIR")]
        child: Option<PathBuf>,
    },
}

/// Which session.
#[derive(Clone, Default, Group)]
pub(crate) struct Which {
    /// Go on with this session.
    #[arg(long, value_name = "ID", conflicts_with = "continue")]
    pub(crate) session: Option<SessionId>,
    /// Go on with the session that was used last.
    #[arg(long = "continue")]
    pub(crate) r#continue: bool,
}

impl Which {
    /// Whether a new session is meant.
    pub(crate) fn is_new(&self) -> bool {
        self.session.is_none() && !self.r#continue
    }
}

/// What a signal says.
fn payload(text: &str) -> Result<RawJson, String> {
    RawJson::parse(text)
        .map_err(|error| format!("{error}; text is written in quotes: '\"{}\"'", text.escape_default()))
}

/// A label as it is written: NAME=VALUE.
fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("a label is written NAME=VALUE".into()),
    }
}
