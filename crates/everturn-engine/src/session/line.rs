//! The line of commits: what the next commit must know, and the road into storage.

use everturn_core::{
    Error, ErrorKind, Result,
    id::Seq,
    storage::{Batch, Committed},
};
use tokio::sync::OwnedMutexGuard;

use super::{Session, state::Adopted};

/// What only the holder of the line knows and changes.
pub(crate) struct Line {
    /// The last commit.
    pub(crate) head: Seq,
    /// The greatest id that was given out.
    pub(crate) minted: u64,
}

/// Stores a batch and adopts it, in a task of its own: whoever waits may be dropped, the commit goes on.
pub(super) async fn commit(
    session: Session,
    mut line: OwnedMutexGuard<Line>,
    batch: Batch,
    adopted: Adopted,
) -> Result<Seq> {
    let committing = tokio::spawn(async move {
        let (seq, minted) = (batch.seq, batch.minted);
        match session.0.opener.store.commit(batch).await {
            Ok(Committed::Stored | Committed::Already) => {
                line.head = seq;
                line.minted = minted;
                session.0.state().adopt(adopted);
                // Listeners run off the line, after the state has adopted the commit.
                drop(line);
                session.0.head.send_replace(seq);
                Ok(seq)
            }
            Err(error) => {
                if is_final(&error) {
                    session.0.shut(error.clone());
                }
                Err(error)
            }
        }
    });
    committing.await.unwrap_or_else(|fault| Err(Error::closed(format!("the commit was cut off: {fault}"))))
}

/// Whether an error of storage ends this owner's right to write.
fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Fenced | ErrorKind::Corrupt { .. } | ErrorKind::Closed { .. } | ErrorKind::Newer { .. }
    )
}
