//! Aligning two arrays: the runs of items that are in both, in the same order.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::value::equal;

/// How deep a hash looks into an item. Arrays nest, each level hashes its items, and the time shall stay linear.
const HASHED_LEVELS: usize = 8;

/// Items that are the same in both arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Where it begins in the old array.
    pub(super) before: usize,
    /// Where it begins in the new array.
    pub(super) after: usize,
    /// How many items it has; at least one.
    pub(super) length: usize,
}

/// The runs that two arrays share, in their order, none overlapping another. The arrays' ends are known to differ.
///
/// Items that are in each array once are the anchors; the longest sequence of them that kept its order is taken, and
/// each grows to both sides. So it takes n log n time, and what only moved about is not looked for.
pub(super) fn runs(before: &[Value], after: &[Value]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    if before.len() < 2 && after.len() < 2 {
        return runs;
    }
    for (b, a) in ordered(&anchors(before, after)) {
        let (b_free, a_free) =
            runs.last().map_or((0, 0), |run| (run.before + run.length, run.after + run.length));
        // An anchor that an earlier run has grown over is done.
        if b < b_free || a < a_free {
            continue;
        }
        let forth = alike(before[b..].iter().zip(&after[a..]));
        if forth > 0 {
            let back = alike(before[b_free..b].iter().rev().zip(after[a_free..a].iter().rev()));
            let (before, after) = (b - back, a - back);
            runs.push(Run { before, after, length: back + forth });
        }
    }
    runs
}

/// How many pairs are equal before one is not.
pub(super) fn alike<'v>(pairs: impl Iterator<Item = (&'v Value, &'v Value)>) -> usize {
    pairs.take_while(|(before, after)| equal(before, after)).count()
}

/// Pairs of places of the items that seem to be in each array once, by their place in the new one.
fn anchors(before: &[Value], after: &[Value]) -> Vec<(usize, usize)> {
    let (before, after) = (single(before), single(after));
    let mut pairs: Vec<(usize, usize)> = after
        .iter()
        .filter_map(|(hash, a)| {
            let found = before.binary_search_by_key(hash, |(hash, _)| *hash).ok()?;
            Some((before[found].1, *a))
        })
        .collect();
    pairs.sort_unstable_by_key(|(_, a)| *a);
    pairs
}

/// Hash and place of each item whose hash no other item has, by hash.
fn single(items: &[Value]) -> Vec<(u64, usize)> {
    let mut all: Vec<(u64, usize)> = items.iter().map(|item| hash(item, HASHED_LEVELS)).zip(0..).collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() == 1).map(|same| same[0]).collect()
}

/// The longest part of the pairs whose first numbers grow; their second numbers grow already.
fn ordered(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length: the pair that ends the best sequence of that length, and for each pair the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous = vec![None; pairs.len()];
    for (number, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < pair.0);
        previous[number] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut chosen: Vec<_> = std::iter::successors(ends.last().copied(), |number| previous[*number])
        .map(|number| pairs[number])
        .collect();
    chosen.reverse();
    chosen
}

/// A hash that equal values share. What lies deeper than `depth` does not count.
fn hash(value: &Value, depth: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => 0u8.hash(&mut hasher),
        Value::Bool(flag) => flag.hash(&mut hasher),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => float.to_bits().hash(&mut hasher),
            None => number.hash(&mut hasher),
        },
        Value::String(text) => text.hash(&mut hasher),
        Value::Array(_) | Value::Object(_) if depth == 0 => {}
        Value::Array(items) => items.iter().for_each(|item| hash(item, depth - 1).hash(&mut hasher)),
        Value::Object(map) => {
            // A sum, so that the order of keys does not count.
            let sum = map.iter().fold(0u64, |sum, (key, value)| {
                let mut entry = DefaultHasher::new();
                (key, hash(value, depth - 1)).hash(&mut entry);
                sum.wrapping_add(entry.finish())
            });
            sum.hash(&mut hasher);
        }
    }
    hasher.finish()
}
