//! Documents in a session: their committed values, and what a transaction makes of them.

use std::{any::Any, sync::Arc};

use everturn_core::{
    Error, Result,
    document::{self, Document, Operation, ScopeKey, Value},
    id::Seq,
    json::RawJson,
    storage::{DocumentRecord, DocumentState, DocumentWrite, Revision},
};

/// The greatest weight of a document, in bytes of JSON.
pub(super) const WEIGHT_MAX: usize = 4 << 20;

/// A document's committed value.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) record: DocumentRecord,
    pub(crate) version: u32,
    pub(crate) value: Value,
    /// The commit that made it so.
    pub(crate) seq: Seq,
    /// Bytes of the newest base.
    base: usize,
    /// Bytes of the deltas since.
    deltas: usize,
}

impl Committed {
    /// Folds what storage keeps into a value.
    pub(super) fn fold(state: &DocumentState) -> Result<Self> {
        let where_ = format!("document {} ({})", state.record.id, state.record.kind);
        let corrupt = |error: Error| Error::corrupt(error.to_string(), where_.clone());
        let mut value: Value = document::read(state.base.get()).map_err(corrupt)?;
        for delta in &state.deltas {
            let operations: Vec<Operation> = document::read(delta.get()).map_err(corrupt)?;
            value = document::fold(value, &operations).map_err(corrupt)?;
        }
        Ok(Self {
            record: state.record.clone(),
            version: state.version,
            value,
            seq: state.seq,
            base: state.base.get().len(),
            deltas: state.deltas.iter().map(|delta| delta.get().len()).sum(),
        })
    }
}

impl Committed {
    /// The value as a `T`.
    ///
    /// Errors: `Newer`, or `Invalid` when it does not read as one.
    pub(crate) fn read<T: Document>(&self) -> Result<T> {
        document::decode(self.value.clone(), self.version)
    }
}

/// A typed value behind its type.
trait Typed: Any + Send + Sync {
    fn encode(&self) -> Result<Value>;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Document> Typed for T {
    fn encode(&self) -> Result<Value> {
        document::encode(self, WEIGHT_MAX)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A document in a transaction.
pub(super) struct Slot {
    pub(super) record: DocumentRecord,
    version: u32,
    /// The value before this transaction; none when the transaction creates the document.
    before: Option<Arc<Committed>>,
    change: Change,
}

enum Change {
    /// Whatever differs from the value before.
    Typed(Box<dyn Typed>),
    /// These operations, which lead to this value.
    Raw(Vec<Operation>, Value),
    /// A value to begin with: what a fork inherits.
    Value(Value),
    Retired,
}

/// What a slot comes to when the transaction commits.
pub(super) struct Settled {
    pub(super) write: DocumentWrite,
    /// The new committed value; none when the document was retired.
    pub(super) committed: Option<Arc<Committed>>,
}

impl Slot {
    /// A document that is to be edited as a `T`.
    pub(super) fn typed<T: Document>(record: DocumentRecord, before: Option<Arc<Committed>>) -> Result<Self> {
        let value = match &before {
            Some(before) => before.read()?,
            None => T::default(),
        };
        Ok(Self { record, version: T::VERSION, before, change: Change::Typed(Box::new(value)) })
    }

    /// A new document with a value to begin with.
    pub(super) fn inherited(record: DocumentRecord, version: u32, value: Value) -> Self {
        Self { record, version, before: None, change: Change::Value(value) }
    }

    /// A document that is changed by operations.
    pub(super) fn raw(
        record: DocumentRecord,
        version: u32,
        before: Option<Arc<Committed>>,
        operations: Vec<Operation>,
    ) -> Result<Self> {
        let value = before.as_ref().map_or(Value::Null, |before| before.value.clone());
        let value = document::fold(value, &operations)?;
        Ok(Self { record, version, before, change: Change::Raw(operations, value) })
    }

    /// Lends the value as a `T`.
    ///
    /// Errors: `Invalid` when the transaction holds the document as another type, or has retired it.
    pub(super) fn lend<T: Document>(&mut self) -> Result<&mut T> {
        if let Change::Value(value) | Change::Raw(_, value) = &self.change {
            let value = document::decode::<T>(value.clone(), self.version)?;
            (self.version, self.change) = (T::VERSION, Change::Typed(Box::new(value)));
        }
        let kind = &self.record.kind;
        match &mut self.change {
            Change::Typed(value) => value.as_mut().as_any_mut().downcast_mut().ok_or_else(|| {
                Error::invalid(format!("edit document {kind}: this transaction holds it as another type"))
            }),
            _ => Err(Error::invalid(format!("edit document {kind}: this transaction has retired it"))),
        }
    }

    /// The value as it stands in the transaction; none when it was retired.
    pub(super) fn value(&self) -> Result<Option<(u32, Value)>> {
        Ok(match &self.change {
            Change::Typed(value) => Some((self.version, value.encode()?)),
            Change::Raw(_, value) | Change::Value(value) => Some((self.version, value.clone())),
            Change::Retired => None,
        })
    }

    /// Gives an inherited value that nobody has edited yet a newer one.
    pub(super) fn refresh(&mut self, version: u32, value: Value) {
        if let Change::Value(inherited) = &mut self.change {
            (self.version, *inherited) = (version, value);
        }
    }

    /// Whether it still is what a fork inherited.
    pub(super) fn is_untouched(&self) -> bool {
        matches!(self.change, Change::Value(_))
    }

    pub(super) fn retire(&mut self) {
        self.change = Change::Retired;
    }

    pub(super) fn is(&self, scope: ScopeKey, kind: &str) -> bool {
        self.record.scope == scope && self.record.kind == kind
    }

    /// What is to be written; none when nothing changed.
    pub(super) fn settle(self, seq: Seq) -> Result<Option<Settled>> {
        let Self { record, version, before, change } = self;
        let (value, operations) = match change {
            Change::Retired if before.is_none() => return Ok(None),
            Change::Retired => {
                let write = DocumentWrite { record, revision: Revision::Retired };
                return Ok(Some(Settled { write, committed: None }));
            }
            Change::Typed(value) => (value.encode()?, None),
            Change::Raw(operations, value) => (value, Some(operations)),
            Change::Value(value) => (value, None),
        };
        let Some(before) = before.filter(|before| before.version == version) else {
            return base(record, version, value, seq).map(Some);
        };
        let operations = operations.unwrap_or_else(|| document::diff(&before.value, &value));
        if operations.is_empty() {
            return Ok(None);
        }
        let delta = RawJson::of(&operations)?;
        let deltas = before.deltas + delta.get().len();
        // Reading stays bounded and writing amortised linear: deltas never outweigh their base.
        if deltas > before.base {
            return base(record, version, value, seq).map(Some);
        }
        let committed = Committed { record: record.clone(), version, value, seq, base: before.base, deltas };
        let write = DocumentWrite { record, revision: Revision::Delta { operations: delta } };
        Ok(Some(Settled { write, committed: Some(Arc::new(committed)) }))
    }
}

fn base(record: DocumentRecord, version: u32, value: Value, seq: Seq) -> Result<Settled> {
    let json = RawJson::of(&value)?;
    if json.get().len() > WEIGHT_MAX {
        let message =
            format!("write document {}: {} bytes, at most {WEIGHT_MAX}", record.kind, json.get().len());
        return Err(Error::too_large(message));
    }
    let committed =
        Committed { record: record.clone(), version, value, seq, base: json.get().len(), deltas: 0 };
    let write = DocumentWrite { record, revision: Revision::Base { version, value: json } };
    Ok(Settled { write, committed: Some(Arc::new(committed)) })
}
