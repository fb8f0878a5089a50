//! The bounds of a scan: the values that SQLite passes for a plan's comparisons, converted to values of key parts.
//!
//! SQL shows several values that Rust code can store as one: `true` and a timestamp as an integer, a UUID as a blob, a
//! float that is no number as NULL, and many unsigned integers beyond 2^63 as one float. A scan reads all of them, in
//! several ranges if they are not adjacent. Tables that SQLite made have no such values.

use crate::affinity::Affinity;
use crate::change::coerce;
use crate::plan::{Edge, Plan};
use crate::vtab::Arguments;
use rows::{Bounds, ColumnType, Value};
use rusqlite::types::ValueRef;
use std::ops::Bound;

/// The largest number of ranges of a scan to which another part is added.
const MOST_RANGES: usize = 27;

/// A part of a plan's way.
#[derive(Clone, Copy)]
pub(crate) struct PartType {
    pub kind: ColumnType,
    pub affinity: Affinity,
    /// Whether SQLite made the table.
    pub is_of_sqlite: bool,
}

/// The disjoint ranges that a scan reads.
#[derive(Default)]
pub(crate) struct Ranges<'v> {
    pub first: Bounds<'v>,
    pub others: Vec<Bounds<'v>>,
}

impl<'v> Ranges<'v> {
    fn all(&mut self) -> impl Iterator<Item = &mut Bounds<'v>> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Makes each range one for each of the `count` changes.
    fn split(&mut self, count: usize, change: impl Fn(&mut Bounds<'v>, usize)) {
        let before = self.others.len();
        for number in 1..count {
            for at in 0..=before {
                let mut copy = if at == 0 { self.first.clone() } else { self.others[at - 1].clone() };
                change(&mut copy, number);
                self.others.push(copy);
            }
        }
        self.all().take(before + 1).for_each(|bounds| change(bounds, 0));
    }
}

/// Returns the ranges of a plan, or `None` if no row can be within them. `part_type` returns the type of a part of the
/// plan's way.
///
/// If types differ, the ranges may include rows that do not match, but they never exclude one that does. If a part
/// holds only integers, they are exact ([`is_exact`]).
pub(crate) fn bounds<'v>(
    plan: Plan,
    part_type: impl Fn(usize) -> PartType,
    arguments: &Arguments<'v>,
) -> Option<Ranges<'v>> {
    let mut ranges = Ranges::default();
    let mut at = 0;
    for part in 0..usize::from(plan.equal) {
        let PartType { kind, affinity, is_of_sqlite } = part_type(part);
        let may_convert = plan.is_soft && may_convert(kind, affinity, arguments.get(at));
        if may_convert || ranges.others.len() >= MOST_RANGES {
            return Some(ranges);
        }
        let value = affinity.apply(arguments.get(at))?;
        at += 1;
        if value.is_null() {
            let is_strange = !is_of_sqlite && matches!(kind, ColumnType::Float | ColumnType::Any);
            narrow_to_null(&mut ranges, &plan, part, is_strange)?;
            continue;
        }
        if !is_of_sqlite && let Some((lower, upper)) = shown_as(kind, &value) {
            for bounds in ranges.all() {
                (bounds.lower, bounds.upper) = (lower.clone(), upper.clone());
            }
            return Some(ranges);
        }
        let value = exactly(kind, value)?;
        let others = if kind == ColumnType::Any && !is_of_sqlite { shown_alike(&value) } else { Vec::new() };
        if others.is_empty() && ranges.others.is_empty() {
            ranges.first.equal.push(value);
        } else {
            let values: Vec<_> = std::iter::once(value).chain(others).collect();
            ranges.split(values.len(), |bounds, number| bounds.equal.push(values[number].clone()));
        }
    }
    let is_range = plan.lower != Edge::Open || plan.upper != Edge::Open;
    if !is_range {
        return Some(ranges);
    }
    let PartType { kind, affinity, is_of_sqlite } = part_type(usize::from(plan.equal));
    let is_mixed = kind == ColumnType::Any && !is_of_sqlite;
    let (mut lower, mut upper) = (Bound::Unbounded, Bound::Unbounded);
    for (edge, is_lower) in [(plan.lower, true), (plan.upper, false)] {
        if edge == Edge::Open {
            continue;
        }
        let given = arguments.get(at);
        at += 1;
        // A text that is a number sorts before all other texts if it is compared with an operand of a numeric type.
        let is_below_texts = !is_lower && is_soft(kind, affinity) && matches!(given, ValueRef::Text(_));
        if plan.is_soft && (is_below_texts || may_convert(kind, affinity, given)) {
            continue;
        }
        let value = affinity.apply(given);
        let side = if is_lower { &mut lower } else { &mut upper };
        let near = value.as_ref().filter(|_| is_mixed).and_then(|value| shown_as(kind, value));
        if let Some((first, last)) = near {
            *side = if is_lower { first } else { last };
            continue;
        }
        *side = match value {
            Some(Value::Null) => return None,
            // The operand may be an integer that no float equals. The nearest float is then no exact bound, so it is
            // included.
            Some(value) if affinity == Affinity::Real => bound(kind, value, Edge::Included, is_lower)?,
            Some(value) => bound(kind, value, edge, is_lower)?,
            // Text that is not UTF-8 sorts somewhere among the texts, after all numbers and before all bytes.
            None if matches!(kind, ColumnType::Text | ColumnType::Any) => Bound::Unbounded,
            None => bound(kind, Value::from(""), edge, is_lower)?,
        };
    }
    if is_mixed {
        let classes = classes(&lower, &upper);
        if classes.is_empty() {
            return None;
        }
        ranges.split(classes.len(), |bounds, number| {
            (bounds.lower, bounds.upper) = classes[number].clone();
        });
        return Some(ranges);
    }
    // Nulls sort before all values, and are in no range, even an unbounded one.
    if plan.way > 0 && matches!(lower, Bound::Unbounded) {
        lower = Bound::Excluded(Value::Null);
    }
    for bounds in &mut ranges.others {
        (bounds.lower, bounds.upper) = (lower.clone(), upper.clone());
    }
    (ranges.first.lower, ranges.first.upper) = (lower, upper);
    Some(ranges)
}

/// Narrows the ranges to the nulls of a part. `None`: it has none. `is_strange`: SQL shows NaN there as null.
fn narrow_to_null(ranges: &mut Ranges<'_>, plan: &Plan, part: usize, is_strange: bool) -> Option<()> {
    // A primary key has no nulls.
    match (plan.nulls >> part & 1 == 1, plan.way > 0) {
        (true, true) if is_strange => {
            let nulls = [Value::Null, Value::Float(f64::NAN)];
            ranges.split(2, |bounds, number| bounds.equal.push(nulls[number].clone()));
        }
        (true, true) => ranges.all().for_each(|bounds| bounds.equal.push(Value::Null)),
        (true, false) if is_strange => {
            ranges.all().for_each(|bounds| bounds.equal.push(Value::Float(f64::NAN)));
        }
        _ => return None,
    }
    Some(())
}

/// Returns the other values of a column of any type that SQL shows as this one.
fn shown_alike<'v>(value: &Value<'v>) -> Vec<Value<'v>> {
    let integer = match value {
        Value::Int(number) => *number,
        Value::Float(number) if number.fract() == 0.0 && (-BEYOND..BEYOND).contains(number) => *number as i64,
        Value::Bytes(bytes) => {
            return <[u8; 16]>::try_from(&bytes[..]).map(Value::Uuid).into_iter().collect();
        }
        _ => return Vec::new(),
    };
    let bool = match integer {
        0 | 1 => Some(Value::Bool(integer == 1)),
        _ => None,
    };
    bool.into_iter().chain([Value::Timestamp(integer)]).collect()
}

/// Returns the ranges of a part of any type whose values are between two as SQL orders them: numbers, which include
/// booleans and timestamps, then texts, then blobs, which include UUIDs. In keys the order is that of the list.
fn classes<'v>(
    lower: &Bound<Value<'v>>,
    upper: &Bound<Value<'v>>,
) -> Vec<(Bound<Value<'v>>, Bound<Value<'v>>)> {
    let rank_of = |bound: &Bound<Value<'v>>| match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(rank(value)),
        Bound::Unbounded => None,
    };
    let (first, last) = (rank_of(lower), rank_of(upper));
    let from = |value| Bound::Included(value);
    let uuid = |byte: u8| Value::Uuid([byte; 16]);
    // The rank, the ends, and whether a bound of that rank is one of these values.
    let all = [
        (0, from(Value::Bool(false)), from(Value::Bool(true)), false),
        (0, from(Value::Float(f64::NEG_INFINITY)), from(Value::Float(f64::INFINITY)), true),
        (0, from(Value::Timestamp(i64::MIN)), from(Value::Timestamp(i64::MAX)), false),
        (1, from(Value::from("")), Bound::Excluded(uuid(0)), true),
        (2, from(uuid(0)), from(uuid(u8::MAX)), false),
        (2, from(Value::from(&b""[..])), Bound::Unbounded, true),
    ];
    let is_within =
        |rank: u8| first.is_none_or(|first| first <= rank) && last.is_none_or(|last| rank <= last);
    let within = all.into_iter().filter(|(rank, ..)| is_within(*rank));
    let cut = within.map(|(rank, start, end, is_cut)| {
        let start = if is_cut && first == Some(rank) { lower.clone() } else { start };
        let end = if is_cut && last == Some(rank) { upper.clone() } else { end };
        (start, end)
    });
    cut.collect()
}

/// Returns whether the operand of a comparison may convert values of this type: an operand of a numeric type converts
/// texts, and values without affinity are also converted by texts.
pub(crate) fn is_soft(kind: ColumnType, affinity: Affinity) -> bool {
    affinity == Affinity::Text || affinity == Affinity::Blob && kind == ColumnType::Any
}

/// Returns whether a comparison with `value` may convert a part's value, if `value` comes from a column or a subquery.
fn may_convert(kind: ColumnType, affinity: Affinity, value: ValueRef<'_>) -> bool {
    is_soft(kind, affinity)
        && match value {
            ValueRef::Integer(_) | ValueRef::Real(_) => true,
            ValueRef::Text(_) => affinity == Affinity::Blob,
            ValueRef::Null | ValueRef::Blob(_) => false,
        }
}

/// Returns whether bounds of such parts accept exactly the rows that the comparison accepts, so that SQLite need not
/// compare again.
pub(crate) fn is_exact(kind: ColumnType, affinity: Affinity) -> bool {
    kind == ColumnType::Int && affinity == Affinity::Integer
}

/// Returns whether SQL shows different values of such a part, apart from those it shows as NULL, as different ones.
pub(crate) fn is_distinct(kind: ColumnType, is_of_sqlite: bool) -> bool {
    is_of_sqlite || !matches!(kind, ColumnType::UInt | ColumnType::Any)
}

/// Returns whether the order of such a part is that of the values as SQL shows them.
pub(crate) fn is_ordered(kind: ColumnType, is_of_sqlite: bool) -> bool {
    is_of_sqlite || !matches!(kind, ColumnType::Float | ColumnType::Any)
}

/// Returns the value that a part must have to be equal to `value`, which is not null; `None`: there is none.
fn exactly(kind: ColumnType, value: Value<'_>) -> Option<Value<'_>> {
    match (kind, &value) {
        (ColumnType::Any, _)
        | (ColumnType::Int, Value::Int(_))
        | (ColumnType::Float, Value::Float(_))
        | (ColumnType::Text, Value::Text(_))
        | (ColumnType::Bytes, Value::Bytes(_)) => Some(value),
        // This float is equal to an integer, but no column would store it as one.
        (ColumnType::Int | ColumnType::Timestamp, Value::Float(number)) if *number == i64::MIN as f64 => {
            coerce(kind, Value::Int(i64::MIN)).ok()
        }
        _ => coerce(kind, value).ok(),
    }
}

/// The first integer beyond those with a sign, as a float.
const BEYOND: f64 = 9_223_372_036_854_775_808.0;

/// Returns the first and the last of about all unsigned integers that are shown as this float, which stands for many.
/// `None`: the value is a different one.
fn shown_as(kind: ColumnType, value: &Value<'_>) -> Option<(Bound<Value<'static>>, Bound<Value<'static>>)> {
    // The distance of two floats in that range. No integer is shown as a float further away.
    const NEAR: u64 = 2048;
    let Value::Float(number) = value else { return None };
    if !(BEYOND..=2.0 * BEYOND).contains(number) {
        return None;
    }
    let near = *number as u64;
    let first = Bound::Included(Value::UInt(near.saturating_sub(NEAR)));
    match kind {
        ColumnType::UInt => Some((first, Bound::Included(Value::UInt(near.saturating_add(NEAR))))),
        // Among these there are floats, too.
        ColumnType::Any => Some((first, Bound::Included(Value::Float(number + NEAR as f64)))),
        _ => None,
    }
}

/// Returns the place of a value's type in the order of SQL.
fn rank(value: &Value<'_>) -> u8 {
    match value {
        Value::Text(_) => 1,
        Value::Bytes(_) => 2,
        _ => 0,
    }
}

/// Returns a bound of a part that excludes no value beyond `value`, and includes few others; `None`: all values match.
fn bound(kind: ColumnType, value: Value<'_>, edge: Edge, is_lower: bool) -> Option<Bound<Value<'_>>> {
    let exact = |value| match edge {
        Edge::Excluded => Bound::Excluded(value),
        _ => Bound::Included(value),
    };
    // If types differ, numbers sort before texts, and texts before bytes. Nothing is above all, and everything is above
    // nothing.
    let own_rank = match kind {
        ColumnType::Any => return Some(exact(value)),
        ColumnType::Text => 1,
        ColumnType::Bytes => 2,
        ColumnType::Int | ColumnType::Float => 0,
        // The column was not made by SQL, so SQLite compares.
        _ => return Some(Bound::Unbounded),
    };
    if rank(&value) != own_rank {
        let is_beyond = (rank(&value) > own_rank) == is_lower;
        return if is_beyond { None } else { Some(Bound::Unbounded) };
    }
    Some(match (kind, value) {
        (ColumnType::Int, Value::Float(number)) => return beside(number, edge, is_lower),
        (_, value) => exact(value),
    })
}

/// Returns a bound of integers: the first or the last one that is at, above or below `number`.
fn beside(number: f64, edge: Edge, is_lower: bool) -> Option<Bound<Value<'static>>> {
    let is_strict = edge == Edge::Excluded;
    // The type is wide enough for values that no column holds; the conversion saturates.
    let wanted = match (is_lower, is_strict) {
        (true, false) => number.ceil() as i128,
        (true, true) => (number.floor() as i128).saturating_add(1),
        (false, false) => number.floor() as i128,
        (false, true) => (number.ceil() as i128).saturating_sub(1),
    };
    match i64::try_from(wanted) {
        Ok(wanted) => Some(Bound::Included(Value::Int(wanted))),
        Err(_) if (wanted > 0) == is_lower => None,
        Err(_) => Some(Bound::Unbounded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Near a float, and at the ends of the range, the bound accepts an integer exactly if the comparison does.
    #[test]
    fn bounds_of_integers_are_exact() {
        let ends =
            [f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 9.3e18, -9.3e18, 9_223_372_036_854_775_808.0];
        let near = [-2.0, -1.5, -0.0, 0.5, 1.0, 1.5, 2.0, -9_223_372_036_854_775_808.0];
        let integers = [i64::MIN, i64::MIN + 1, -3, -2, -1, 0, 1, 2, 3, i64::MAX - 1, i64::MAX];
        for number in ends.into_iter().chain(near) {
            for (edge, is_lower) in
                [Edge::Included, Edge::Excluded].into_iter().flat_map(|e| [(e, true), (e, false)])
            {
                let bound = bound(ColumnType::Int, Value::Float(number), edge, is_lower);
                for integer in integers {
                    let order = Value::Int(integer).cmp(&Value::Float(number));
                    let order = if is_lower { order } else { order.reverse() };
                    let wanted = order.is_gt() || order.is_eq() && edge == Edge::Included;
                    let is_within = match &bound {
                        None => false,
                        Some(Bound::Unbounded) => true,
                        Some(Bound::Included(Value::Int(end))) if is_lower => integer >= *end,
                        Some(Bound::Included(Value::Int(end))) => integer <= *end,
                        Some(other) => panic!("{other:?}"),
                    };
                    assert_eq!(is_within, wanted, "{integer} against {number}, {edge:?}, lower: {is_lower}");
                }
            }
        }
    }
}
