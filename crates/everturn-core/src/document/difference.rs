//! The difference of two values: the operations that lead from one to the other.

use serde_json::{Map, Value};

use super::{
    align,
    operation::Operation,
    path::{Path, PathPart},
    value::{DEPTH_MAX, equal, weight_within},
};

/// How much heavier than a replacement fine operations may be and still be taken: they say what happened, and an
/// append stays one. So no difference weighs more than this many times what a replacement of the whole value does.
const FINE_PREFERRED: usize = 2;

/// The operations that lead from `before` to `after`; none where the values are [`equal`].
///
/// Promise: applied to `before` in their order they give `after`, as long as `after` nests within [`DEPTH_MAX`]. A
/// string that grew becomes an append that holds the new text alone. The time grows with the sizes of the values (and
/// their depth), not with the product of the two.
///
/// ```
/// use everturn_core::document::{Operation, Path, diff};
/// use serde_json::json;
///
/// let operations = diff(&json!({"text": "he", "n": 1}), &json!({"text": "heron", "n": 1}));
/// assert_eq!(operations, [Operation::Append { path: Path::from(["text"]), text: "ron".into() }]);
/// assert!(diff(&json!([1]), &json!([1])).is_empty());
/// ```
pub fn diff(before: &Value, after: &Value) -> Vec<Operation> {
    let mut draft = Draft::default();
    draft.compare(before, after);
    draft.operations
}

/// The operations found so far, and where the comparison stands.
#[derive(Default)]
struct Draft<'v> {
    path: Vec<Step<'v>>,
    operations: Vec<Operation>,
    weight: usize,
}

/// A part of a path that costs nothing until an operation needs it.
#[derive(Clone, Copy)]
enum Step<'v> {
    Index(usize),
    Key(&'v str),
}

/// A state of the draft to go back to.
#[derive(Clone, Copy)]
struct Mark {
    operations: usize,
    weight: usize,
}

impl From<Step<'_>> for PathPart {
    fn from(step: Step<'_>) -> Self {
        match step {
            Step::Index(index) => index.into(),
            Step::Key(key) => key.into(),
        }
    }
}

impl<'v> Draft<'v> {
    fn compare(&mut self, before: &'v Value, after: &'v Value) {
        let mark = self.mark();
        let deeper = self.path.len() < DEPTH_MAX;
        match (before, after) {
            (Value::Object(before), Value::Object(after)) if deeper => self.object(before, after),
            (Value::Array(before), Value::Array(after)) if deeper => self.array(before, after),
            (Value::String(before), Value::String(after)) => self.string(before, after),
            (before, after) if equal(before, after) => return,
            (_, after) => return self.push(self.replacement(after)),
        }
        if self.operations.len() == mark.operations {
            return;
        }
        // An empty value in the place of the new one gives the weight of what is around it.
        let around = self.replacement(&Value::Array(Vec::new())).weight() - 2;
        if self.is_heavier(mark, FINE_PREFERRED, around, std::slice::from_ref(after)) {
            self.rewind(mark);
            self.push(self.replacement(after));
        }
    }

    fn object(&mut self, before: &'v Map<String, Value>, after: &'v Map<String, Value>) {
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            self.inside(Step::Key(key), |draft| {
                draft.push(Operation::Remove { path: draft.path() });
            });
        }
        for (key, after) in after {
            self.inside(Step::Key(key), |draft| match before.get(key) {
                Some(before) => draft.compare(before, after),
                None => draft.push(draft.replacement(after)),
            });
        }
    }

    fn array(&mut self, before: &'v [Value], after: &'v [Value]) {
        let front = align::alike(before.iter().zip(after));
        let (before, after) = (&before[front..], &after[front..]);
        let back = align::alike(before.iter().rev().zip(after.iter().rev()));
        let (before, after) = (&before[..before.len() - back], &after[..after.len() - back]);

        let mark = self.mark();
        let (mut b, mut a) = (0, 0);
        for run in align::runs(before, after) {
            self.gap(front + a, &before[b..run.before], &after[a..run.after]);
            (b, a) = (run.before + run.length, run.after + run.length);
        }
        self.gap(front + a, &before[b..], &after[a..]);
        self.prefer_splice(mark, front, before, after);
    }

    /// Items that have nothing in common; everything in front of `at` is as it should be.
    fn gap(&mut self, at: usize, before: &'v [Value], after: &'v [Value]) {
        let mark = self.mark();
        let pairs = before.len().min(after.len());
        for (index, (before, after)) in (at..).zip(before.iter().zip(after)) {
            self.inside(Step::Index(index), |draft| draft.compare(before, after));
        }
        if before.len() != after.len() {
            self.splice(at + pairs, &before[pairs..], &after[pairs..]);
        }
        self.prefer_splice(mark, at, before, after);
    }

    /// Takes one splice in the place of what came since `mark`, where that is lighter.
    fn prefer_splice(&mut self, mark: Mark, at: usize, before: &[Value], after: &[Value]) {
        let bare = Operation::Splice { path: self.path(), at, remove: before.len(), insert: Vec::new() };
        if self.is_heavier(mark, 1, bare.weight(), after) {
            self.rewind(mark);
            self.splice(at, before, after);
        }
    }

    fn splice(&mut self, at: usize, before: &[Value], after: &[Value]) {
        let (path, insert) = (self.path(), after.to_vec());
        self.push(Operation::Splice { path, at, remove: before.len(), insert });
    }

    fn string(&mut self, before: &str, after: &str) {
        let kept = if after.starts_with(before) { Some(before) } else { overlap(before, after) };
        let Some(kept) = kept else {
            return self.push(self.replacement(&after.into()));
        };
        if kept.len() < before.len() {
            let characters = before[..before.len() - kept.len()].chars().count();
            self.push(Operation::Trim { path: self.path(), characters });
        }
        if kept.len() < after.len() {
            self.push(Operation::Append { path: self.path(), text: after[kept.len()..].into() });
        }
    }

    /// The operation that gives the place where the draft stands a new value.
    fn replacement(&self, after: &Value) -> Operation {
        let (path, value) = (self.path(), after.clone());
        if path.parts().is_empty() { Operation::Replace { value } } else { Operation::Set { path, value } }
    }

    /// Whether what came since `mark` weighs over `times` as much as `values` with what is `around` them.
    fn is_heavier(&self, mark: Mark, times: usize, around: usize, values: &[Value]) -> bool {
        // Rounded up: the half of an odd weight is over the limit too.
        let fine = (self.weight - mark.weight).div_ceil(times);
        let mut left = fine.checked_sub(around + values.len().saturating_sub(1));
        for value in values {
            left = left.and_then(|left| weight_within(value, left).map(|weight| left - weight));
        }
        left.is_some_and(|left| left > 0)
    }

    fn path(&self) -> Path {
        self.path.iter().copied().collect()
    }

    fn inside(&mut self, step: Step<'v>, work: impl FnOnce(&mut Self)) {
        self.path.push(step);
        work(self);
        self.path.pop();
    }

    fn push(&mut self, operation: Operation) {
        self.weight += operation.weight();
        self.operations.push(operation);
    }

    fn mark(&self) -> Mark {
        Mark { operations: self.operations.len(), weight: self.weight }
    }

    fn rewind(&mut self, mark: Mark) {
        self.operations.truncate(mark.operations);
        self.weight = mark.weight;
    }
}

/// The end of `before` that `after` begins with, where that is obvious.
///
/// A piece of the front of `after` is looked for in `before`, at so few places that the time stays linear.
fn overlap<'t>(before: &'t str, after: &str) -> Option<&'t str> {
    const PLACES_MAX: usize = 64;
    if before.ends_with(after) {
        return Some(&before[before.len() - after.len()..]);
    }
    let piece = &after[..after.ceil_char_boundary((after.len() / 4).clamp(8, 64))];
    before
        .match_indices(piece)
        .take(PLACES_MAX)
        .map(|(at, _)| &before[at..])
        .find(|end| after.starts_with(end))
}
