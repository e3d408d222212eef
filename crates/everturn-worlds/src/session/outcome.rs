//! What a session came to, and what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use everturn::{
    ErrorKind, Result,
    approval::{ApprovalState, Decision, Question},
    conversation::Lineage,
    entry::{EntryRecord, kind},
    env::ReadFile,
    message::{End, Message, Outcome as CallOutcome},
    storage::{ApprovalQuery, ApprovalRow, EntryQuery, Order, SubmissionFilter, SubmissionQuery},
    submission::SubmissionState,
    usage::RequestEnd,
};
use serde::{Deserialize, Serialize};

use super::{Life, hands::FILES, is_answered, without_ids};
use crate::tasks::Line;

/// Tools that are never run twice.
const ONCE: [&str; 3] = ["note", "sign", "burn"];

/// What a session came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// What is the same whatever happened on the way: conversations, inputs, decisions, turns, files.
    pub came: Vec<String>,
    /// What is wrong.
    pub findings: Vec<String>,
    /// How many requests were sent.
    pub sent: usize,
    /// How many requests of the ledger may have been out when a process ended.
    pub cut: usize,
    /// How many calls ended without anybody knowing whether they ran.
    pub unknown: usize,
}

impl Life {
    /// What it came to.
    pub(super) async fn outcome(&self) -> Result<Outcome> {
        let (session, ledger) = (&self.session, &self.scene.place.ledger);
        let mut findings: Vec<String> = Vec::new();
        for finding in self.harness.verify(session.id()).await? {
            findings.push(finding.to_string());
        }
        let (mut came, unknown) = self.conversations(&mut findings).await?;
        came.extend(self.submissions(&mut findings).await?);
        came.extend(self.approvals(&mut findings).await?);
        came.push(format!("{} turns on the path", session.history().await?.len()));
        for path in FILES {
            let read = ReadFile { path: path.into(), offset: 0, limit: 100 };
            let bytes = self.scene.env.read(read).await?;
            came.push(format!("{path}: {}", String::from_utf8_lossy(&bytes)));
        }
        let lines = ledger.lines();
        findings.extend(effects(&lines));
        let sent = lines.iter().filter(|line| matches!(line, Line::Sent(_))).count();
        let cut = self.ledger(sent, &mut findings).await?;
        Ok(Outcome { came, findings, sent, cut, unknown })
    }

    /// What the conversations say; and how many calls are unknown.
    async fn conversations(&self, findings: &mut Vec<String>) -> Result<(Vec<String>, usize)> {
        let (mut all, mut unknown) = (Vec::new(), 0);
        for conversation in self.session.store().conversations(self.session.id()).await? {
            if let Err(breach) = self.session.context(conversation.id, None).await?.check() {
                findings.push(format!("conversation {}: {breach}", conversation.id));
            }
            let own = EntryQuery::of(self.session.id(), Lineage::new(conversation.id));
            let own = EntryQuery { order: Order::OldestFirst, ..own };
            let entries = self.session.store().entries(own).await?;
            let (lines, unsure) = told(&entries);
            unknown += unsure;
            all.push(lines);
        }
        // Sub-agents begin in any order.
        all.sort();
        Ok((all.concat(), unknown))
    }

    /// How the inputs ended.
    async fn submissions(&self, findings: &mut Vec<String>) -> Result<Vec<String>> {
        let query = SubmissionQuery { session: self.session.id(), only: SubmissionFilter::All };
        let mut lines = Vec::new();
        for record in self.session.store().submissions(query).await? {
            let request = without_ids(record.request.as_deref().unwrap_or_default());
            match &record.state {
                SubmissionState::Settled { end, .. } if is_answered(end) => lines.push(format!(
                    "input {} {request}: answered",
                    if record.conversation == super::ROOT { "of the root" } else { "" }
                )),
                other => findings.push(format!("input {request} has not ended well: {other:?}")),
            }
        }
        lines.sort();
        Ok(lines)
    }

    /// What was decided.
    async fn approvals(&self, findings: &mut Vec<String>) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for ApprovalRow { record, .. } in
            self.session.store().approvals(ApprovalQuery::of(self.session.id())).await?
        {
            let Question::Call { tool, .. } = &record.question else { continue };
            match &record.state {
                ApprovalState::Decided { decision, actor, .. } => {
                    lines.push(format!("{tool}: {decision:?} by {actor}"));
                    // One decision wins; who comes later is told so.
                    let again = self.session.decide(record.id, Decision::Allow, "ben").await;
                    if !again.is_err_and(|error| *error.kind() == ErrorKind::Conflict) {
                        findings.push(format!("what was asked of {tool} was decided again"));
                    }
                }
                other => findings.push(format!("what was asked of {tool} is not decided: {other:?}")),
            }
        }
        lines.sort();
        Ok(lines)
    }

    /// Compares the ledger with what was sent; gives how many of its requests may have been cut off.
    async fn ledger(&self, sent: usize, findings: &mut Vec<String>) -> Result<usize> {
        let rows = self.session.usage().await?;
        let places: BTreeSet<_> = rows.iter().map(|row| (row.turn, row.step, row.attempt)).collect();
        if places.len() != rows.len() {
            findings.push(format!("{} rows for {} requests", rows.len(), places.len()));
        }
        let cut = rows.iter().filter(|row| row.end == RequestEnd::Unknown).count();
        // What was about to be sent when a process ended has a row too.
        if sent > rows.len() || sent + cut < rows.len() {
            findings.push(format!("{sent} requests were sent, {} rows, {cut} unknown", rows.len()));
        }
        Ok(cut)
    }
}

/// What was done outside and should not have been.
fn effects(lines: &[Line]) -> Vec<String> {
    let (mut wrong, mut done, mut keys) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for line in lines {
        match line {
            Line::Did(what) => *done.entry(what).or_insert(0) += 1,
            Line::Asked(key) => _ = keys.insert(key),
            Line::Sent(Some(breach)) => wrong.push(format!("a request was illegal: {breach}")),
            _ => {}
        }
    }
    wrong.extend(
        done.iter().filter(|(_, times)| **times > 1).map(|(what, times)| format!("{what}: {times} times")),
    );
    if done.keys().any(|what| what.starts_with("burn")) {
        wrong.push("what was denied was done".into());
    }
    if keys.len() != 2 {
        wrong.push(format!("two calls pay, under these keys: {keys:?}"));
    }
    wrong
}

/// The entries of a conversation, in lines; and how many calls are unknown. What depends on where a life was cut is left out.
fn told(entries: &[EntryRecord]) -> (Vec<String>, usize) {
    let (mut lines, mut results, mut tools, mut unknown) = (Vec::new(), Vec::new(), BTreeMap::new(), 0);
    for entry in entries {
        if entry.kind != kind::RESULT {
            // Results come in any order.
            results.sort();
            lines.append(&mut results);
        }
        for message in &entry.messages {
            match &**message {
                Message::Assistant(answer) if answer.end != End::Complete => {}
                Message::Assistant(answer) => {
                    tools.extend(answer.calls().map(|call| (call.id.clone(), call.name.clone())));
                    let calls: Vec<_> = answer.calls().map(|call| call.name.as_str()).collect();
                    lines.push(format!("{}: {} {}", entry.kind, answer.text(), calls.join(" ")));
                }
                Message::Result(result) => {
                    let tool = tools.get(&result.call).map_or("nothing", String::as_str);
                    let is_unsure = result.outcome == CallOutcome::Unknown;
                    unknown += usize::from(is_unsure);
                    results.push(match &result.outcome {
                        CallOutcome::Ok | CallOutcome::Unknown if ONCE.contains(&tool) => {
                            format!("result of {tool}: once or unknown")
                        }
                        other => format!("result of {tool}: {} {}", other.word(), without_ids(&result.text)),
                    });
                }
                other => lines.push(format!("{}: {}", entry.kind, without_ids(&other.text()))),
            }
        }
        if entry.messages.is_empty() && entry.kind != kind::RESULT {
            lines.push(entry.kind.clone());
        }
    }
    lines.append(&mut results);
    (lines, unknown)
}
