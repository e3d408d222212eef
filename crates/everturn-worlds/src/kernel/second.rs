//! Another session: archived, deleted, and brought back.

use everturn::{
    Error, Result,
    entry::Entry,
    kernel::{NewTask, Session},
    message::Message,
    storage::{NewSession, SessionQuery, SessionRow},
};

use super::{Life, ROOT, steps::Draft};
use crate::notebook::Line;

/// The request id of the other session.
const OTHER: &str = "the-other-session";

impl Life<'_> {
    pub(super) async fn second_session(&mut self) -> Result<()> {
        if !self.is_done("archive") {
            let archive = self.archive().await?;
            self.notebook.write(Line::Archive(archive))?;
            self.step("archive", async |_| Ok(None)).await?;
        }
        if !self.is_done("delete") {
            if let Some(row) = self.other().await? {
                Session::open(&self.opener, row.id).await?.delete().await?;
            }
            self.step("delete", async |_| Ok(None)).await?;
        }
        if !self.is_done("restore") {
            if self.other().await?.is_none_or(|row| row.new.labels.contains_key("et.restoring")) {
                let archive = self.notebook.archive();
                let archive = archive.ok_or_else(|| Error::invalid("the archive is not in the notebook"))?;
                Session::restore(&self.opener, archive.as_bytes()).await?.close().await?;
            }
            self.step("restore", async |_| Ok(None)).await?;
        }
        Ok(())
    }

    /// The other session's row; none while it is deleted.
    pub(super) async fn other(&self) -> Result<Option<SessionRow>> {
        let query = SessionQuery { request: Some(OTHER.into()), ..SessionQuery::default() };
        Ok(self.opener.store.sessions(query).await?.pop())
    }

    async fn archive(&self) -> Result<String> {
        let new = NewSession { request: Some(OTHER.into()), ..NewSession::default() };
        let other = Session::create(&self.opener, new).await?;
        fill(&other).await?;
        let mut archive = Vec::new();
        other.archive(&mut archive).await?;
        other.close().await?;
        String::from_utf8(archive).map_err(|fault| Error::invalid(fault.to_string()))
    }
}

/// What the other session has: as often as it is asked for, once.
async fn fill(other: &Session) -> Result<()> {
    let there = other.entries(ROOT, None, usize::MAX).await?;
    let there = there.iter().filter(|entry| entry.kind == "note").count();
    for n in there..4 {
        let mut writer = other.write_blob();
        writer.write(format!("bytes {n}").as_bytes()).await?;
        let blob = writer.finish().await?;
        let mut tx = other.begin().await?;
        tx.append(ROOT, Entry::new("note").message(Message::user(format!("kept {n}"))))?;
        // So many that a deletion takes them away in more than one slice.
        for more in 0..20 {
            tx.append(ROOT, Entry::new("more").data(more)?)?;
        }
        tx.doc::<Draft>(()).await?.text.push_str("kept ");
        tx.create_task(NewTask::new(ROOT, "worlds.work", 1))?;
        tx.refer(blob);
        tx.commit().await?;
    }
    Ok(())
}
