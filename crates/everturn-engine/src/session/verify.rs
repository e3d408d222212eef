//! Reading all that a session has stored, to prove that it agrees with itself.

use everturn_core::{
    Error, ErrorKind, Result,
    conversation::{Conversation, Lineage},
    document::ScopeKey,
    id::Seq,
    storage::{
        ApprovalQuery, ChangeQuery, DocumentQuery, SessionRow, SubmissionFilter, SubmissionQuery, TaskQuery,
    },
    verify::{Finding, Stored},
};

use super::{SessionReader, document::Committed};

/// How many entries are read at a time.
const PAGE: usize = 500;

impl SessionReader {
    /// Reads everything again and proves that it agrees with itself. Gives all that is wrong; changes nothing.
    ///
    /// Shape: what cannot be read for its own sake (a checksum, a document that does not fold) is a finding, and the
    /// rest is read on.
    /// Errors: what keeps the store from being read at all.
    pub async fn verify(&self) -> Result<Vec<Finding>> {
        let (mut findings, moved) = self.verify_now().await?;
        // What was committed while this read is seen in part. What is wrong stays wrong, and what only seemed so does not.
        if moved && !findings.is_empty() {
            let (again, _) = self.verify_now().await?;
            findings.retain(|finding| again.contains(finding));
        }
        Ok(findings)
    }

    /// What is wrong, and whether the session was committed to meanwhile.
    async fn verify_now(&self) -> Result<(Vec<Finding>, bool)> {
        let (store, session) = (self.store(), self.row().id);
        let before = self.row_now().await?;
        let mut stored = Stored::new(before.clone());
        let mut findings = Vec::new();
        stored.floor = self.floor(&before).await?;
        stored.conversations = note(&mut findings, store.conversations(session).await)?;
        stored.tasks = note(
            &mut findings,
            store.tasks(TaskQuery { session, live: false, ids: None, owner: None }).await,
        )?;
        let only = SubmissionFilter::All;
        stored.submissions = note(&mut findings, store.submissions(SubmissionQuery { session, only }).await)?;
        let approvals = note(&mut findings, store.approvals(ApprovalQuery::of(session)).await)?;
        stored.approvals = approvals.into_iter().map(|row| row.record).collect();
        stored.usage = note(&mut findings, store.usage(session).await)?;
        for conversation in &stored.conversations.clone() {
            self.read_entries(conversation, &mut stored, &mut findings).await?;
            self.read_documents(ScopeKey::Conversation(conversation.id), &mut findings).await?;
        }
        self.read_documents(ScopeKey::Session, &mut findings).await?;
        for task in &stored.tasks.clone() {
            self.read_documents(ScopeKey::Task(task.id), &mut findings).await?;
        }
        // Read last, so that nothing that was read lies behind it.
        stored.row = self.row_now().await?;
        let moved = stored.row.head != before.head;
        // What could not be read is missing everywhere else: then only that is told.
        if findings.is_empty() {
            findings = stored.verify();
        }
        Ok((findings, moved))
    }

    async fn row_now(&self) -> Result<SessionRow> {
        Ok(Self::open(self.store().clone(), self.row().id).await?.row().clone())
    }

    /// Up to which commit history was trimmed.
    async fn floor(&self, row: &SessionRow) -> Result<Seq> {
        let SessionRow { id: session, epoch, head: after, .. } = *row;
        Ok(self.store().changes(ChangeQuery { session, epoch, after, limit: 0 }).await?.floor)
    }

    async fn read_entries(
        &self,
        conversation: &Conversation,
        stored: &mut Stored,
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let (own, mut after) = (Lineage::new(conversation.id), None);
        loop {
            let page = note(findings, self.entries_after(&own, after, PAGE).await)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            stored.entries.extend(page);
        }
    }

    async fn read_documents(&self, scope: ScopeKey, findings: &mut Vec<Finding>) -> Result<()> {
        let query = DocumentQuery { session: self.row().id, scope, kind: None, at: None };
        for state in note(findings, self.store().documents(query).await)? {
            note(findings, Committed::fold(&state).map(|_| Vec::<()>::new()))?;
        }
        Ok(())
    }
}

/// Takes what was read; what is damaged becomes a finding.
fn note<T>(findings: &mut Vec<Finding>, read: Result<Vec<T>>) -> Result<Vec<T>> {
    match read {
        Err(error) => match error.kind() {
            ErrorKind::Corrupt { what, where_ } => {
                findings.push(Finding { record: where_.clone(), what: what.clone() });
                Ok(Vec::new())
            }
            _ => Err(Error::clone(&error)),
        },
        read => read,
    }
}
