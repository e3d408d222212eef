//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};
use everturn::{
    Cursor,
    budget::Budget,
    id::{ApprovalId, ConversationId, EntryId, SessionId, TaskId},
    json::RawJson,
    model::ModelRef,
    policy::Rule,
};

use crate::budget;

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
                  6 storage refused for now, 7 it waits for a decision (everturn approvals), 130 cancelled,\n\
                  143 stopped in mid-turn (everturn resume goes on)."
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
    /// The model: demo, anthropic/MODEL, gemini/MODEL, openai/MODEL, chat/MODEL, or one at another server:
    /// chat/MODEL@http://HOST/v1.
    #[arg(long, global = true, value_name = "MODEL")]
    pub(crate) model: Option<ModelRef>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Chat in the terminal (what happens without a command).
    Chat {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        rules: Rules,
    },
    /// Ask one question; the answer goes to standard output.
    #[command(
        after_help = "Examples:\n  everturn run \"which function under src returns the largest number?\"\n  \
                            git diff | everturn run \"explain this\" --model chat/gpt-5\n  \
                            everturn run --json \"list the files\" | jq .type\n  \
                            everturn run --allow \"exec(cargo test **)\" --budget steps=20 \"make the tests pass\"\n\n\
                            What no rule allows is asked for here, in a terminal. Without one it is denied, or waits\n\
                            for `everturn approve` with --ask. A turn that ran out of budget or stood still has failed\n\
                            (exit code 1)."
    )]
    Run {
        /// The question. Standard input is put behind it, unless it is a terminal.
        prompt: String,
        /// Print events as JSON lines instead of the answer.
        #[arg(long)]
        json: bool,
        /// Let what policy asks about wait until somebody decides it, from anywhere, instead of denying it.
        #[arg(long)]
        ask: bool,
        /// The answer is JSON that fits the schema in this file; it goes to standard output and nothing else does.
        #[arg(long, value_name = "FILE")]
        output_schema: Option<PathBuf>,
        /// How much the turn and its sub-agents may spend: steps, calls, children, depth, input_tokens, output_tokens,
        /// wall_ms, and cost in dollars, as in steps=20,cost=0.5.
        #[arg(long, value_name = "LIMITS", value_parser = budget::read)]
        budget: Option<Budget>,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        rules: Rules,
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
        #[command(flatten)]
        rules: Rules,
    },
    // What can be asked of a session, whoever runs it.
    /// Speak into the turn that runs, in whichever process; without one, what is said begins a turn.
    #[command(after_help = "Examples:\n  everturn steer ID \"in French, please\"\n  \
                            everturn steer ID \"do not touch main\" --declining    declines what the turn asks, too")]
    Steer {
        /// The session.
        id: SessionId,
        /// What is said.
        text: String,
        /// What becomes of it when the turn is over first.
        #[arg(long, value_enum, default_value_t)]
        late: Late,
        /// Decline what the turn asks about, with the text as the reason. Otherwise the text waits for the decision.
        #[arg(long)]
        declining: bool,
        /// Your own name of it: saying it again under it changes nothing, and tells what became of it.
        #[arg(long)]
        key: Option<String>,
        #[command(flatten)]
        place: Where,
    },
    /// List what waits for a decision, with what would happen.
    Approvals {
        /// Only of this session.
        id: Option<SessionId>,
        /// Print JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// Allow what is asked, or answer it.
    #[command(after_help = "Examples:\n  everturn approve ID             the only one that is open\n  \
                            everturn approve ID 12 --session    and its like, for as long as the session lives\n  \
                            everturn approve ID 12 --edit '{\"argv\": [\"ls\"]}'\n  \
                            everturn approve ID 12 --answer \"the second one\"\n\n\
                            The first decision counts; a second one ends with exit code 1 and says who won.")]
    Approve {
        #[command(flatten)]
        which: Question,
        #[command(flatten)]
        how: How,
    },
    /// Refuse what is asked.
    Deny {
        #[command(flatten)]
        which: Question,
        /// Why; the model reads it.
        #[arg(long, value_name = "TEXT", required_unless_present = "stop", conflicts_with = "stop")]
        reason: Option<String>,
        /// End the turn: nobody knows whether a call that was cut off has run.
        #[arg(long)]
        stop: bool,
    },
    /// Withdraw what waits in a conversation and stop all its work.
    Abort {
        /// The session.
        id: SessionId,
        /// Background work too.
        #[arg(long)]
        background: bool,
        #[command(flatten)]
        place: Where,
    },
    /// Fork a conversation; --model has the fork answered by another model. Prints the fork.
    Fork {
        /// The session.
        id: SessionId,
        /// The last entry that the fork has; all, without it.
        #[arg(long, value_name = "ENTRY")]
        at: Option<EntryId>,
        #[command(flatten)]
        place: Where,
    },
    /// Restore the files that a turn has changed, all of them or none. What its commands did stays.
    Undo {
        /// The session.
        id: SessionId,
        /// The turn, as `everturn show` names it.
        turn: TaskId,
    },
    /// Make the context of a conversation shorter.
    Compact {
        /// The session.
        id: SessionId,
        /// What the summary should look at most of all.
        focus: Option<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Begin a conversation anew; the model is sent nothing of what came before.
    Reset {
        /// The session.
        id: SessionId,
        /// What the model is told of what came before.
        text: Option<String>,
        #[command(flatten)]
        place: Where,
    },
    /// What the command goes by.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// List the models of which something is known: how much they read and write, what that costs, and who says so. Any
    /// other works too. Rows of your own are in models.json beside your everturn.toml.
    Models,
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

/// Rules beside those of the files.
#[derive(Clone, Default, Group)]
pub(crate) struct Rules {
    /// Allow acts without asking, as in --allow "write(src/**)"; may be given several times.
    #[arg(long = "allow", value_name = "ACT", value_parser = allow)]
    pub(crate) allow: Vec<Rule>,
    /// Deny acts, as in --deny "exec(git push **)"; may be given several times.
    #[arg(long = "deny", value_name = "ACT", value_parser = deny)]
    pub(crate) deny: Vec<Rule>,
}

fn allow(act: &str) -> Result<Rule, String> {
    format!("allow {act}").parse().map_err(|error: everturn::Error| error.to_string())
}

fn deny(act: &str) -> Result<Rule, String> {
    format!("deny {act}").parse().map_err(|error: everturn::Error| error.to_string())
}

/// Which conversation of a session.
#[derive(Clone, Copy, Default, Group)]
pub(crate) struct Where {
    /// The conversation; the one that chats use, without it.
    #[arg(long, value_name = "N")]
    pub(crate) conversation: Option<ConversationId>,
}

/// Which question.
#[derive(Clone, Copy, Group)]
pub(crate) struct Question {
    /// The session.
    pub(crate) id: SessionId,
    /// The approval, as `everturn approvals` names it; the only one that is open, without it.
    pub(crate) approval: Option<ApprovalId>,
}

/// How it is allowed.
#[derive(Clone, Default, Group)]
#[group(multiple = false)]
pub(crate) struct How {
    /// Allow its like too, for as long as the session lives.
    #[arg(long)]
    pub(crate) session: bool,
    /// Allow it with other arguments.
    #[arg(long, value_name = "JSON", value_parser = arguments)]
    pub(crate) edit: Option<RawJson>,
    /// Answer a question.
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Option<String>,
    /// Say that a call that was cut off has run, and what came of it.
    #[arg(long, value_name = "TEXT", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the flag may stand alone")]
    pub(crate) happened: Option<Option<String>>,
    /// Say that a call that was cut off has not run: it runs now.
    #[arg(long)]
    pub(crate) did_not_happen: bool,
}

fn arguments(text: &str) -> Result<RawJson, String> {
    RawJson::parse(text).map_err(|error| error.to_string())
}

/// What becomes of a steer that comes too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Late {
    /// It begins a turn.
    #[default]
    FollowUp,
    /// It is given back.
    Return,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print it.
    Show {
        /// Say where each value came from.
        #[arg(long)]
        origin: bool,
    },
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
