//! The steps of the life, in their order.

use std::collections::BTreeMap;

use everturn::{
    Document, Error, Result, Transaction,
    conversation::Ownership,
    entry::Entry,
    id::{ConversationId, EntryId, Seq},
    json::RawJson,
    kernel::NewTask,
    message::Message,
    storage::{CHUNK, Mail, MailFilter, MailKind, Receipt},
};
use serde::{Deserialize, Serialize};

use super::{Life, ROOT};

/// Keeps its history, and goes with forks.
#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "worlds.notes", scope = "conversation", history = "rewindable", fork = "as_of")]
struct Notes {
    text: String,
}

/// Keeps only what it is.
#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "worlds.draft")]
pub(super) struct Draft {
    pub(super) text: String,
}

/// How often the documents are edited: often enough that a new base is written twice.
const EDITS: u64 = 9;

/// The key of the stranger's mail.
pub(super) const MAIL: &str = "signal 1";

impl Life<'_> {
    pub(super) async fn run(&mut self) -> Result<()> {
        self.begin().await?;
        for n in 0..EDITS {
            self.step(&format!("edit {n}"), async |tx| edit(tx, n).await).await?;
        }
        self.forks().await?;
        self.documents_end().await?;
        self.step("task", async |tx| {
            let task = NewTask::new(ROOT, "worlds.work", 1).input(&"some work")?;
            tx.create_task(task).map(|task| Some(task.0))
        })
        .await?;
        self.step("name", async |tx| {
            tx.set_title("a life");
            tx.set_labels(BTreeMap::from([("team".into(), "north".into())]));
            Ok(None)
        })
        .await?;
        self.blob().await?;
        self.mail().await?;
        self.second_session().await?;
        self.secret().await?;
        self.trim().await
    }

    async fn begin(&mut self) -> Result<()> {
        for name in ["one", "two"] {
            self.step(name, async |tx| {
                tx.append(ROOT, Entry::new("note").message(Message::user(name))).map(|entry| Some(entry.0))
            })
            .await?;
        }
        Ok(())
    }

    /// A fork, and a fork of the fork; each goes its own way.
    async fn forks(&mut self) -> Result<()> {
        let edited = EntryId(self.made("edit 4")?);
        self.step("fork", async |tx| {
            let fork = tx.fork(ROOT, edited, Ownership::Ownerless).await?;
            Ok(Some(fork.0))
        })
        .await?;
        let fork = ConversationId(self.made("fork")?);
        self.step("note in the fork", async |tx| {
            tx.doc::<Notes>(fork).await?.text.push_str(" and the fork");
            let note = tx.append(fork, Entry::new("note").message(Message::user("in the fork")))?;
            Ok(Some(note.0))
        })
        .await?;
        let noted = EntryId(self.made("note in the fork")?);
        self.step("fork of the fork", async |tx| {
            let second = tx.fork(fork, noted, Ownership::Ownerless).await?;
            tx.append(second, Entry::new("note").message(Message::user("in the fork of the fork")))?;
            tx.doc::<Notes>(second).await?.text.push_str(" and its fork");
            Ok(Some(second.0))
        })
        .await
    }

    /// Documents end, and others of their kinds begin.
    async fn documents_end(&mut self) -> Result<()> {
        self.step("retire", async |tx| {
            tx.retire::<Notes>(ROOT).await?;
            tx.retire::<Draft>(()).await?;
            Ok(None)
        })
        .await?;
        self.step("recreate", async |tx| {
            tx.doc::<Notes>(ROOT).await?.text = "anew".into();
            tx.doc::<Draft>(()).await?.text = "anew".into();
            Ok(None)
        })
        .await
    }

    /// Bytes that go ahead of their commit, in more than one chunk.
    async fn blob(&mut self) -> Result<()> {
        if self.is_done("blob") {
            return Ok(());
        }
        let mut writer = self.session.write_blob();
        writer.write(&vec![7; CHUNK]).await?;
        writer.write(b"and a little more").await?;
        let blob = writer.finish().await?;
        self.step("blob", async |tx| {
            tx.refer(blob);
            Ok(None)
        })
        .await
    }

    /// A stranger asks, and the owner takes it.
    async fn mail(&mut self) -> Result<()> {
        if self.is_done("mail") {
            return Ok(());
        }
        let mail = Mail {
            session: self.session.id(),
            key: MAIL.into(),
            kind: MailKind::Signal,
            conversation: None,
            request: None,
            actor: "local".into(),
            time: self.opener.world.clock.now(),
            body: RawJson::empty(),
        };
        self.opener.store.post(mail).await?;
        let waiting = self.session.mail().await?;
        let [row] = waiting.as_slice() else {
            return Err(Error::invalid(format!("one mail was posted, and these wait: {waiting:?}")));
        };
        self.step("mail", async |tx| {
            let answer =
                tx.append(ROOT, Entry::new("note").message(Message::user(format!("got {}", row.mail.key))))?;
            tx.take(&row.mail.key, Receipt::Accepted { id: Some(answer.0) });
            Ok(Some(answer.0))
        })
        .await?;
        let id = Some(self.made("mail")?);
        let found = self.opener.store.mail(self.session.id(), MailFilter::Key(MAIL.into())).await?;
        match found.first().and_then(|row| row.receipt.as_ref()) {
            Some(Receipt::Accepted { id: found }) if *found == id => Ok(()),
            other => Err(Error::invalid(format!("the stranger's receipt is {other:?}, not {id:?}"))),
        }
    }

    /// A secret is written and taken away.
    async fn secret(&mut self) -> Result<()> {
        self.step("secret", async |tx| {
            tx.append(ROOT, Entry::new("note").message(Message::user("a secret"))).map(|entry| Some(entry.0))
        })
        .await?;
        // From here on it is told to nobody: what the watchers see must not depend on when they look.
        self.watchers.catch_up(self.session.head(), self.notebook).await?;
        let secret = EntryId(self.made("secret")?);
        self.step("purge", async |tx| {
            tx.purge(ROOT, secret).await?;
            Ok(None)
        })
        .await
    }

    /// Old history goes, up to what both watchers have seen.
    async fn trim(&mut self) -> Result<()> {
        self.watchers.catch_up(self.session.head(), self.notebook).await?;
        let edited = EntryId(self.made("edit 4")?);
        let below: Seq = self.session.entry(ROOT, edited).await?.seq;
        self.step("trim", async |tx| {
            tx.trim(below)?;
            Ok(None)
        })
        .await?;
        self.watchers.catch_up(self.session.head(), self.notebook).await
    }
}

async fn edit(tx: &mut Transaction, n: u64) -> Result<Option<u64>> {
    let entry = tx.append(ROOT, Entry::new("note").message(Message::user(format!("edit {n}"))))?;
    let text = match n {
        0 => "long enough that some edits weigh less ".repeat(8),
        _ => format!("edit {n} "),
    };
    tx.doc::<Notes>(ROOT).await?.text.push_str(&text);
    tx.doc::<Draft>(()).await?.text.push_str(&text);
    Ok(Some(entry.0))
}
