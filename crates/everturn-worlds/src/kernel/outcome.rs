//! What a life came to, as text that can be compared: ids and times that differ from run to run are not in it.

use everturn::{
    Result, SessionReader,
    clock::Timestamp,
    document::ScopeKey,
    id::{ConversationId, Epoch, Seq, SessionId, TaskId},
    storage::{BlobQuery, CHUNK, ChangeQuery, MailFilter, SessionRow, TaskQuery},
};
use serde::{Deserialize, Serialize};

use super::{
    Life,
    steps::MAIL,
    watchers::{OWNER, READER},
};
use crate::notebook::Told;

/// What the life came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The session, record by record.
    pub session: Vec<String>,
    /// The session that was archived, deleted and brought back.
    pub other: Vec<String>,
    /// What is wrong with what is stored.
    pub findings: Vec<String>,
    /// What the watcher of the open session saw.
    pub owner_saw: Vec<Told>,
    /// What the watcher from outside saw.
    pub reader_saw: Vec<Told>,
    /// How often watchers were told to read everything anew.
    pub resyncs: usize,
}

impl Life<'_> {
    pub(super) async fn outcome(&self) -> Result<Outcome> {
        let store = &self.opener.store;
        // Nobody writes any more: what nobody refers to now nobody ever will.
        store.sweep(Timestamp(i64::MAX)).await?;
        let id = self.session.id();
        let mut findings: Vec<String> = store.check().await?.iter().map(ToString::to_string).collect();
        let mut other = vec!["it is gone".to_owned()];
        if let Some(row) = self.other().await? {
            other = self.records(&row).await?;
            findings.extend(self.findings(row.id).await?);
        }
        findings.extend(self.findings(id).await?);
        let mut session = Vec::new();
        if let Some(row) = store.session(id).await? {
            session = self.records(&row).await?;
        }
        let (owner_saw, reader_saw) = (self.notebook.seen(OWNER), self.notebook.seen(READER));
        Ok(Outcome { session, other, findings, owner_saw, reader_saw, resyncs: self.notebook.resyncs() })
    }

    async fn findings(&self, id: SessionId) -> Result<Vec<String>> {
        let reader = SessionReader::open(self.opener.store.clone(), id).await?;
        Ok(reader.verify().await?.iter().map(ToString::to_string).collect())
    }

    /// All that a session has.
    async fn records(&self, row: &SessionRow) -> Result<Vec<String>> {
        let (store, session) = (&self.opener.store, row.id);
        let SessionRow { new, created, used, head, minted, .. } = row;
        let mut records = vec![format!("{new:?} {created} {used} head {head} minted {minted}")];
        let all = ChangeQuery { session, epoch: Epoch(u64::MAX), after: Seq(0), limit: usize::MAX };
        let changes = store.changes(all).await?;
        records.extend(changes.commits.iter().map(|commit| format!("{commit:?}")));
        let mut scopes = vec![ScopeKey::Session];
        for conversation in store.conversations(session).await? {
            scopes.push(ScopeKey::Conversation(conversation.id));
            records.push(self.transcript(session, conversation.id).await?);
        }
        let tasks = store.tasks(TaskQuery { session, live: false, ids: None, owner: None }).await?;
        scopes.extend(tasks.iter().map(|task| ScopeKey::Task(TaskId(task.id.0))));
        let reader = SessionReader::open(store.clone(), session).await?;
        for scope in scopes {
            let documents = reader.documents(scope).await?;
            records.extend(documents.iter().map(|one| format!("{scope}: {one:?}")));
        }
        let mail = store.mail(session, MailFilter::Key(MAIL.into())).await?;
        records.extend(mail.iter().map(|row| format!("{} {:?}", row.mail.key, row.receipt)));
        let mut blobs = store.blobs(session).await?;
        blobs.sort_by_key(|blob| blob.0);
        for blob in blobs {
            // All of a small one; of a large one the end of its first chunk, and what comes behind it.
            for from in [0, CHUNK - 8] {
                let part = store.blob(BlobQuery { blob, from: from as u64, limit: 32 }).await?;
                records.push(format!("blob {blob} from {from}: {part:?}"));
            }
        }
        Ok(records)
    }

    /// What a conversation sees, in its order.
    async fn transcript(&self, session: SessionId, id: ConversationId) -> Result<String> {
        let reader = SessionReader::open(self.opener.store.clone(), session).await?;
        let seen = reader.entries(id, None, usize::MAX).await?;
        let seen: Vec<_> = seen.iter().rev().map(|entry| (entry.id, entry.text())).collect();
        Ok(format!("conversation {id} sees {seen:?}"))
    }
}
