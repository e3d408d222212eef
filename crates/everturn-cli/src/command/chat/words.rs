//! What can be said behind a slash.

use everturn::{AgentChange, LiveSession, id::TaskId};

use super::{super::rework::restored, Chat};
use crate::{exit::Failure, question, screen::cost, signal::Signal};

const HELP: &str = "\
/model MODEL    answer with another model (demo, openai/MODEL, chat/MODEL@http://HOST/v1)
/turns          the turns so far; /branch TURN goes back to one
/undo [TURN]    restore the files that a turn has changed; the last one, without a number
/compact [TEXT] make the context shorter; the summary looks at TEXT most of all
/reset [TEXT]   begin anew; the model is told TEXT of what came before
/approvals      what waits for a decision
/usage          what this conversation has cost
/help           this
/quit           leave; a turn that runs is cancelled, the session is kept
What you type while a turn runs it gets before its next request. Ctrl-C ends the turn.";

impl Chat {
    /// Carries out what was said behind a slash.
    pub(super) async fn act(&mut self, command: &str) -> Result<(), Failure> {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        let rest = rest.trim();
        if word == "help" {
            HELP.lines().for_each(|line| self.screen.note(line));
            return Ok(());
        }
        let asked_first = || Failure::usage("nothing was asked yet; ask first");
        let session = self.session.clone().ok_or_else(asked_first)?;
        let text = Some(rest.to_owned()).filter(|text| !text.is_empty());
        match word {
            "model" => self.model(&session, rest).await,
            "turns" => self.turns(&session).await,
            "branch" => {
                session.branch_from(rest.parse()?, everturn::Branch::default()).await?;
                self.screen.note(&format!("back at the end of turn {rest}"));
                Ok(())
            }
            "undo" => self.undo(&session, text).await,
            "compact" => self.compact(&session, text).await,
            "reset" => {
                let entry = session.current().await?.reset(text).await?;
                self.screen.note(&format!("begun anew at entry {entry}"));
                Ok(())
            }
            "approvals" => {
                self.approvals(&session);
                Ok(())
            }
            "usage" => {
                let current = session.current().await?.id();
                self.screen.note(&cost(&session.usage_of(current).await?));
                Ok(())
            }
            _ => Err(Failure::usage(format!("there is no /{word}; /help lists what there is"))),
        }
    }

    async fn model(&mut self, session: &LiveSession, model: &str) -> Result<(), Failure> {
        let change = AgentChange { model: Some(model.parse()?), ..AgentChange::default() };
        session.current().await?.configure(change).await?;
        self.screen.note(&format!("{model} answers from now on"));
        Ok(())
    }

    async fn turns(&mut self, session: &LiveSession) -> Result<(), Failure> {
        for turn in session.turns().await? {
            let parent = turn.parent.map_or(String::new(), |parent| format!(" after {parent}"));
            let (record, total) = (&turn.record, cost(&turn.record.total));
            self.screen.note(&format!("{}{parent}: {}, {total}", record.turn, record.outcome.word()));
        }
        Ok(())
    }

    async fn undo(&mut self, session: &LiveSession, turn: Option<String>) -> Result<(), Failure> {
        let last = session.history().await?.last().map(|turn| turn.record.turn);
        let turn: Option<TaskId> = turn.map(|turn| turn.parse()).transpose()?.or(last);
        let turn = turn.ok_or_else(|| Failure::usage("no turn has ended yet"))?;
        let paths = session.undo(turn).await?;
        self.screen.note(&restored(turn, &paths));
        Ok(())
    }

    async fn compact(&mut self, session: &LiveSession, focus: Option<String>) -> Result<(), Failure> {
        let current = session.current().await?;
        self.screen.note("(the context is being made shorter)");
        let entry = tokio::select! {
            entry = current.compact(focus) => entry?,
            signal = self.signals.next() => {
                if signal == Signal::Terminate {
                    self.is_leaving = true;
                }
                self.screen.note("(it goes on by itself)");
                return Ok(());
            }
        };
        self.screen.note(&format!("the context begins at entry {entry}"));
        Ok(())
    }

    fn approvals(&mut self, session: &LiveSession) {
        let open = session.open_approvals();
        if open.is_empty() {
            self.screen.note("nothing waits for a decision");
        }
        for record in open {
            self.screen.note(&format!("approval {}", record.id));
            question::lines(&record).iter().for_each(|line| self.screen.note(line));
            // The next line answers the one that was shown last.
            self.open = Some(record.id);
        }
    }
}
