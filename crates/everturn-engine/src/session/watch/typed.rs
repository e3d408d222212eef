//! Watches of one document, as its type.

use std::marker::PhantomData;

use everturn_core::{
    cursor::Cursor,
    document::{Document, Scope},
    storage::Part,
};

use super::{DocumentView, Ended, Frame, FrameKind, Start, Watch};
use crate::session::Session;

/// Follows one document: its value, then each change of it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use everturn_core::{document::Document, memory::Memory, storage::{NewSession, Store}};
/// # use everturn_engine::{Opener, Session, World, session::watch::Start};
/// #[derive(Document, serde::Serialize, serde::Deserialize, Default)]
/// #[document(kind = "app.count", crate = "everturn_core")]
/// struct Count { n: u64 }
/// # let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// # let session = Session::create(&opener, NewSession::default()).await?;
/// let mut counts = session.watch_doc::<Count>((), Start::Now);
/// assert!(counts.next().await?.value.is_none(), "watching never creates");
///
/// let mut tx = session.begin().await?;
/// tx.doc::<Count>(()).await?.n = 7;
/// tx.commit().await?;
/// assert_eq!(counts.next().await?.value.map(|count| count.n), Some(7));
/// # Ok(()) }
/// ```
pub struct DocumentWatch<T> {
    watch: Watch,
    _type: PhantomData<fn() -> T>,
}

/// A document's value at a commit.
///
/// ```
/// use everturn_engine::session::watch::DocumentFrame;
/// fn show<T: std::fmt::Debug>(frame: &DocumentFrame<T>) -> String {
///     format!("revision {}: {:?}", frame.number, frame.value)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct DocumentFrame<T> {
    /// The commit: a watch from here goes on behind this frame.
    pub cursor: Cursor,
    /// The number of the revision, one more with each change; 0 while there is no such document.
    pub number: u64,
    /// The value; none while there is no such document.
    pub value: Option<T>,
}

impl Session {
    /// Watches a document as a `T`. Never creates one; ends when it is retired.
    pub fn watch_doc<T: Document>(&self, scope: T::Scope, from: impl Into<Start>) -> DocumentWatch<T> {
        let part = Part::Document { scope: scope.key(), kind: T::KIND.into() };
        DocumentWatch::new(self.watch(part, from))
    }
}

impl<T: Document> DocumentWatch<T> {
    /// A watch of one document, read as a `T`.
    pub fn new(watch: Watch) -> Self {
        Self { watch, _type: PhantomData }
    }

    /// The next value, or why there are no more.
    ///
    /// Errors: `Ended::Retired` when the document was; `Ended::Failed` with `Newer` or `Invalid` when a value does not
    /// read as a `T`.
    pub async fn next(&mut self) -> Result<DocumentFrame<T>, Ended> {
        loop {
            let Frame { cursor, kind } = self.watch.next().await?;
            let view = match &kind {
                FrameKind::Changed(changed) => {
                    // A retired document has no value: the watch says next that it ended.
                    let Some(view) = changed.documents.last().and_then(|one| one.value.as_ref()) else {
                        continue;
                    };
                    Some(view)
                }
                kind => kind.baseline().and_then(|baseline| baseline.documents.first()),
            };
            let value = view.map(DocumentView::read).transpose().map_err(Ended::Failed)?;
            return Ok(DocumentFrame { cursor, number: view.map_or(0, DocumentView::number), value });
        }
    }
}
