//! The lines of an archive.

use base64::{Engine, engine::general_purpose::STANDARD};
use everturn_core::{
    Error, Result,
    approval::ApprovalRecord,
    clock::Timestamp,
    conversation::Conversation,
    document::ScopeKey,
    entry::{Entry, EntryRecord},
    id::{BlobId, ConversationId, EntryId, Epoch, Seq, SessionId, TaskId},
    json::RawJson,
    storage::{
        Change, DocumentChange, DocumentRecord, DocumentWrite, Mail, NewSession, Revision, SessionRow, Write,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The form of the lines. One that is greater was written by a newer version; form 1 knew no approvals.
pub(super) const FORM: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Session(Header),
    Chunk { blob: BlobId, size: u64, base64: String },
    Commit(Box<Commit>),
    Usage(Vec<UsageRow>),
    Mail(Mail),
    End { lines: u64, sha256: String },
}

/// Which session it is.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) form: u32,
    pub(super) id: SessionId,
    pub(super) new: NewSession,
    pub(super) created: Timestamp,
    pub(super) used: Timestamp,
    pub(super) head: Seq,
    /// Up to which commit history was trimmed.
    #[serde(default)]
    pub(super) floor: Seq,
    pub(super) epoch: Epoch,
    pub(super) minted: u64,
}

impl Header {
    pub(super) fn of(row: &SessionRow, floor: Seq) -> Self {
        let SessionRow { id, created, used, head, epoch, minted, .. } = *row;
        Self { form: FORM, id, new: row.new.clone(), created, used, head, floor, epoch, minted }
    }
}

/// What a commit wrote, as far as its rows still say so.
#[derive(Serialize, Deserialize)]
pub(super) struct Commit {
    pub(super) seq: Seq,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conversations: Vec<Conversation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entries: Vec<EntryLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    submissions: Vec<SubmissionRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<ApprovalRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    documents: Vec<DocumentLine>,
}

#[derive(Serialize, Deserialize)]
struct EntryLine {
    id: EntryId,
    conversation: ConversationId,
    time: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskId>,
    kind: String,
    body: RawJson,
}

#[derive(Serialize, Deserialize)]
struct DocumentLine {
    record: DocumentRecord,
    number: u64,
    revision: RevisionLine,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RevisionLine {
    Base { version: u32, value: RawJson },
    Delta { operations: RawJson },
    Retired,
}

impl TryFrom<Change> for Commit {
    type Error = Error;

    fn try_from(change: Change) -> Result<Self> {
        let Change { seq, conversations, entries, tasks, submissions, approvals, documents } = change;
        let entries = entries.into_iter().map(EntryLine::of).collect::<Result<_>>()?;
        let documents = documents.into_iter().map(DocumentLine::of).collect();
        Ok(Self { seq, conversations, entries, tasks, submissions, approvals, documents })
    }
}

impl Commit {
    /// The ids of what it has.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        let ids = self.conversations.iter().map(|one| one.id.0);
        let ids = ids.chain(self.entries.iter().map(|one| one.id.0));
        let ids = ids.chain(self.tasks.iter().map(|one| one.id.0));
        let ids = ids.chain(self.submissions.iter().map(|one| one.id.0));
        let ids = ids.chain(self.approvals.iter().map(|one| one.id.0));
        ids.chain(self.documents.iter().map(|one| one.record.id.0))
    }

    /// The conversations that it creates.
    pub(super) fn conversations(&self) -> impl Iterator<Item = ConversationId> {
        self.conversations.iter().map(|one| one.id)
    }

    /// The conversations whose documents it revises.
    pub(super) fn scopes(&self) -> impl Iterator<Item = ConversationId> {
        self.documents.iter().filter_map(|document| match document.record.scope {
            ScopeKey::Conversation(id) => Some(id),
            ScopeKey::Session | ScopeKey::Task(_) => None,
        })
    }

    /// The writes that store it again.
    pub(super) fn into_writes(self) -> Result<Vec<Write>> {
        let seq = self.seq;
        let mut writes: Vec<_> = self.conversations.into_iter().map(Write::Conversation).collect();
        for entry in self.entries {
            writes.push(Write::Entry(entry.into_record(seq)?));
        }
        writes.extend(self.tasks.into_iter().map(Write::Task));
        writes.extend(self.submissions.into_iter().map(Write::Submission));
        writes.extend(self.approvals.into_iter().map(Write::Approval));
        writes.extend(self.documents.into_iter().map(DocumentLine::into_write));
        Ok(writes)
    }
}

impl EntryLine {
    fn of(record: EntryRecord) -> Result<Self> {
        let body = RawJson::parse(record.to_body()?)?;
        let EntryRecord { id, conversation, time, task, entry, .. } = record;
        Ok(Self { id, conversation, time, task, kind: entry.kind, body })
    }

    fn into_record(self, seq: Seq) -> Result<EntryRecord> {
        let Self { id, conversation, time, task, kind, body } = self;
        let entry = Entry::from_body(kind, body.get())?;
        Ok(EntryRecord { id, conversation, seq, time, task, entry })
    }
}

impl DocumentLine {
    fn of(DocumentChange { record, number, revision }: DocumentChange) -> Self {
        let revision = match revision {
            Revision::Base { version, value } => RevisionLine::Base { version, value },
            Revision::Delta { operations } => RevisionLine::Delta { operations },
            Revision::Retired => RevisionLine::Retired,
        };
        Self { record, number, revision }
    }

    fn into_write(self) -> Write {
        let Self { record, number, revision } = self;
        let revision = match revision {
            RevisionLine::Base { version, value } => Revision::Base { version, value },
            RevisionLine::Delta { operations } => Revision::Delta { operations },
            RevisionLine::Retired => Revision::Retired,
        };
        Write::Document(DocumentWrite { record, number, revision })
    }
}

impl Line {
    pub(super) fn chunk(blob: BlobId, size: u64, bytes: &[u8]) -> Self {
        Self::Chunk { blob, size, base64: STANDARD.encode(bytes) }
    }

    pub(super) fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|fault| Error::invalid(format!("write an archive: {fault}")))
    }
}

/// The bytes of a chunk.
pub(super) fn bytes(base64: &str) -> Result<Vec<u8>> {
    STANDARD.decode(base64).map_err(|fault| Error::invalid(format!("read a chunk of an archive: {fault}")))
}

/// How many lines there were, and their hash.
#[derive(Clone, Default)]
pub(super) struct Tally {
    pub(super) lines: u64,
    hash: Sha256,
}

impl Tally {
    pub(super) fn add(&mut self, line: &str) {
        self.lines += 1;
        self.hash.update(line);
        self.hash.update("\n");
    }

    /// The last line.
    pub(super) fn end(&self) -> Line {
        let hash = self.hash.clone().finalize();
        Line::End { lines: self.lines, sha256: format!("{hash:x}") }
    }
}
