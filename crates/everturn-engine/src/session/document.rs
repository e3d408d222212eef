//! Documents in a session: their committed values, and what a transaction makes of them.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use everturn_core::{
    Error, Result,
    document::{self, Document, Operation, ScopeKey, Value},
    id::Seq,
    json::RawJson,
    limits::Limits,
    storage::{DocumentRecord, DocumentState, DocumentWrite, Revision},
};

/// A document's committed value.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) record: DocumentRecord,
    pub(crate) version: u32,
    pub(crate) value: Value,
    /// The commit that made it so.
    pub(crate) seq: Seq,
    /// The number of the revision that made it so.
    pub(crate) number: u64,
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
            number: state.number,
            base: state.base.get().len(),
            deltas: state.deltas.iter().map(|delta| delta.get().len()).sum(),
        })
    }
}

impl Committed {
    /// A value that is known without the base and deltas that lead to it.
    pub(super) fn at(record: DocumentRecord, version: u32, value: Value, (seq, number): (Seq, u64)) -> Self {
        Self { record, version, value, seq, number, base: 0, deltas: 0 }
    }

    /// The value as a `T`.
    ///
    /// Errors: `Newer`, or `Invalid` when it does not read as one.
    pub(crate) fn read<T: Document>(&self) -> Result<T> {
        document::decode(self.value.clone(), self.version)
    }
}

/// A typed value behind its type.
trait Typed: Any + Send + Sync {
    fn encode(&self, limits: &Limits) -> Result<Value>;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Document> Typed for T {
    fn encode(&self, limits: &Limits) -> Result<Value> {
        // The application's own code writes it: what breaks there must not break the line.
        catch_unwind(AssertUnwindSafe(|| document::encode(self, limits)))
            .unwrap_or_else(|_| Err(Error::invalid(format!("write document {}: its type panicked", T::KIND))))
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
    pub(super) revised: Revised,
}

/// A document that a commit changes.
#[derive(Clone, Debug)]
pub(crate) struct Revised {
    pub(crate) record: DocumentRecord,
    /// The number of the revision.
    pub(crate) number: u64,
    /// The new committed value; none when the document was retired.
    pub(crate) committed: Option<Arc<Committed>>,
    /// What led to the value from the one before; none when it is a value of its own.
    pub(crate) operations: Option<Arc<[Operation]>>,
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

    /// The same document in a copy of the transaction; none where nothing changed.
    pub(super) fn copy(&self, limits: &Limits) -> Result<Option<Self>> {
        let change = match &self.change {
            Change::Typed(value) => {
                let value = value.encode(limits)?;
                if self.before.as_ref().is_some_and(|before| before.value == value) {
                    return Ok(None);
                }
                Change::Raw(vec![Operation::Replace { value: value.clone() }], value)
            }
            Change::Raw(operations, value) => Change::Raw(operations.clone(), value.clone()),
            Change::Value(value) => Change::Value(value.clone()),
            Change::Retired => Change::Retired,
        };
        let Self { record, version, before, .. } = self;
        Ok(Some(Self { record: record.clone(), version: *version, before: before.clone(), change }))
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
    pub(super) fn value(&self, limits: &Limits) -> Result<Option<(u32, Value)>> {
        Ok(match &self.change {
            Change::Typed(value) => Some((self.version, value.encode(limits)?)),
            Change::Raw(_, value) | Change::Value(value) => Some((self.version, value.clone())),
            Change::Retired => None,
        })
    }

    /// Changes the value as it stands by operations.
    ///
    /// Errors: `Invalid` when they do not fit, or the document was retired.
    pub(super) fn apply(&mut self, more: Vec<Operation>, limits: &Limits) -> Result<()> {
        let kind = &self.record.kind;
        let Some((version, value)) = self.value(limits)? else {
            return Err(Error::invalid(format!("edit document {kind}: this transaction has retired it")));
        };
        let value = document::fold(value, &more)?;
        self.version = version;
        self.change = match std::mem::replace(&mut self.change, Change::Retired) {
            Change::Raw(mut operations, _) => {
                operations.extend(more);
                Change::Raw(operations, value)
            }
            _ => Change::Value(value),
        };
        Ok(())
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

    /// The end of a document that was not looked into.
    pub(super) fn retired(before: Arc<Committed>) -> Self {
        let (record, version) = (before.record.clone(), before.version);
        Self { record, version, before: Some(before), change: Change::Retired }
    }

    pub(super) fn is_retired(&self) -> bool {
        matches!(self.change, Change::Retired)
    }

    pub(super) fn is(&self, scope: ScopeKey, kind: &str) -> bool {
        self.record.scope == scope && self.record.kind == kind
    }

    /// What is to be written; none when nothing changed.
    pub(super) fn settle(self, seq: Seq, limits: &Limits) -> Result<Option<Settled>> {
        let Self { record, version, before, change } = self;
        let number = before.as_ref().map_or(0, |before| before.number) + 1;
        let (value, operations) = match change {
            Change::Retired if before.is_none() => return Ok(None),
            Change::Retired => {
                let write = DocumentWrite { record: record.clone(), number, revision: Revision::Retired };
                let revised = Revised { record, number, committed: None, operations: None };
                return Ok(Some(Settled { write, revised }));
            }
            Change::Typed(value) => (value.encode(limits)?, None),
            Change::Raw(operations, value) => (value, Some(operations)),
            Change::Value(value) => (value, None),
        };
        let mut committed = Committed { record, version, value, seq, number, base: 0, deltas: 0 };
        let Some(before) = before.filter(|before| before.version == version) else {
            return committed.into_base(None, limits).map(Some);
        };
        let operations = operations.unwrap_or_else(|| document::diff(&before.value, &committed.value));
        if operations.is_empty() {
            return Ok(None);
        }
        let delta = RawJson::of(&operations)?;
        (committed.base, committed.deltas) = (before.base, before.deltas + delta.get().len());
        // Reading stays bounded and writing amortised linear: deltas never outweigh their base.
        if committed.deltas > committed.base {
            return committed.into_base(Some(operations.into()), limits).map(Some);
        }
        // An upper bound first: what it weighs to the byte is seldom asked.
        if committed.base + committed.deltas > limits.document {
            let weight = document::weight(&committed.value);
            limits.check(&format!("document {}", committed.record.kind), weight, limits.document)?;
        }
        let revision = Revision::Delta { operations: delta };
        Ok(Some(committed.into_settled(revision, Some(operations.into()))))
    }
}

impl Committed {
    /// The revision that holds the whole value.
    fn into_base(mut self, operations: Option<Arc<[Operation]>>, limits: &Limits) -> Result<Settled> {
        let value = RawJson::of(&self.value)?;
        limits.check(&format!("document {}", self.record.kind), value.get().len(), limits.document)?;
        (self.base, self.deltas) = (value.get().len(), 0);
        let revision = Revision::Base { version: self.version, value };
        Ok(self.into_settled(revision, operations))
    }

    fn into_settled(self, revision: Revision, operations: Option<Arc<[Operation]>>) -> Settled {
        let (record, number) = (self.record.clone(), self.number);
        let write = DocumentWrite { record: record.clone(), number, revision };
        Settled { write, revised: Revised { record, number, committed: Some(Arc::new(self)), operations } }
    }
}
