//! The bounds of a scan: what SQLite hands in for a plan's comparisons, as parts of a key can hold it.

use crate::affinity::Affinity;
use crate::change::coerce;
use crate::plan::{Edge, Plan};
use crate::vtab::Arguments;
use rows::{Bounds, ColumnType, Value};
use rusqlite::types::ValueRef;
use std::ops::Bound;

/// The bounds of a plan, or `None` if no row can be within them. `part_type` tells of a part of the plan's way what it
/// holds.
///
/// Rows outside may be within them where types differ, none that is inside is left out; where a part holds integers
/// alone the bounds are exact ([`is_exact`]).
pub(crate) fn bounds<'v>(
    plan: Plan,
    part_type: impl Fn(usize) -> (ColumnType, Affinity),
    arguments: &Arguments<'v>,
) -> Option<Bounds<'v>> {
    let mut bounds = Bounds::default();
    let mut at = 0;
    for part in 0..usize::from(plan.equal) {
        let (kind, affinity) = part_type(part);
        if plan.is_soft && may_convert(kind, affinity, arguments.get(at)) {
            return Some(bounds);
        }
        let value = affinity.apply(arguments.get(at))?;
        // Nothing is null in a primary key.
        if value.is_null() && (plan.nulls >> part & 1 == 0 || plan.way == 0) {
            return None;
        }
        if let Some((lower, upper)) = shown_as(kind, &value) {
            (bounds.lower, bounds.upper) = (lower, upper);
            return Some(bounds);
        }
        bounds.equal.push(exactly(kind, value)?);
        at += 1;
    }
    for (edge, is_lower) in [(plan.lower, true), (plan.upper, false)] {
        if edge == Edge::Open {
            continue;
        }
        let (kind, affinity) = part_type(usize::from(plan.equal));
        let given = arguments.get(at);
        at += 1;
        // Of texts, those that are numbers are before all others, if they are compared with something of numbers.
        let is_below_texts = !is_lower && is_soft(kind, affinity) && matches!(given, ValueRef::Text(_));
        if plan.is_soft && (is_below_texts || may_convert(kind, affinity, given)) {
            continue;
        }
        let value = affinity.apply(given);
        let side = if is_lower { &mut bounds.lower } else { &mut bounds.upper };
        *side = match value {
            Some(Value::Null) => return None,
            // An integer is compared as it is, which may be none that a float is: the nearest one is no end.
            Some(value) if affinity == Affinity::Real => bound(kind, value, Edge::Included, is_lower)?,
            Some(value) => bound(kind, value, edge, is_lower)?,
            // Text that is not UTF-8: somewhere among the texts, behind all numbers, before all bytes.
            None if matches!(kind, ColumnType::Text | ColumnType::Any) => Bound::Unbounded,
            None => bound(kind, Value::from(""), edge, is_lower)?,
        };
    }
    // Nulls are before all values, and in no range, not even in one that has no end.
    let is_range = plan.lower != Edge::Open || plan.upper != Edge::Open;
    if plan.way > 0 && is_range && matches!(bounds.lower, Bound::Unbounded) {
        bounds.lower = Bound::Excluded(Value::Null);
    }
    Some(bounds)
}

/// Whether what values of these are compared with may have them converted: texts by something of numbers, and any
/// values that no affinity has touched, by texts as well.
pub(crate) fn is_soft(kind: ColumnType, affinity: Affinity) -> bool {
    affinity == Affinity::Text || affinity == Affinity::Blob && kind == ColumnType::Any
}

/// Whether a comparison with `value` may convert what a part holds, if `value` is a column's or a subquery's.
fn may_convert(kind: ColumnType, affinity: Affinity, value: ValueRef<'_>) -> bool {
    is_soft(kind, affinity)
        && match value {
            ValueRef::Integer(_) | ValueRef::Real(_) => true,
            ValueRef::Text(_) => affinity == Affinity::Blob,
            ValueRef::Null | ValueRef::Blob(_) => false,
        }
}

/// Whether bounds of parts that hold this let through exactly what the comparison does, so that SQLite need not compare
/// again.
pub(crate) fn is_exact(kind: ColumnType, affinity: Affinity) -> bool {
    kind == ColumnType::Int && affinity == Affinity::Integer
}

/// The value that a part must have to be equal to `value`; `None`: none is.
fn exactly(kind: ColumnType, value: Value<'_>) -> Option<Value<'_>> {
    if value.is_null() {
        return Some(value);
    }
    match (kind, &value) {
        (ColumnType::Any, _)
        | (ColumnType::Int, Value::Int(_))
        | (ColumnType::Float, Value::Float(_))
        | (ColumnType::Text, Value::Text(_))
        | (ColumnType::Bytes, Value::Bytes(_)) => Some(value),
        // A float that is equal to an integer, and that no column would store as one.
        (ColumnType::Int, Value::Float(number)) if *number == i64::MIN as f64 => Some(Value::Int(i64::MIN)),
        _ => coerce(kind, value).ok(),
    }
}

/// Unsigned integers that are shown as a float, which stands for many: the first and the last, about. `None`: the value
/// is another one.
fn shown_as(kind: ColumnType, value: &Value<'_>) -> Option<(Bound<Value<'static>>, Bound<Value<'static>>)> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    // The distance of two floats there: no integer is shown as one further away.
    const NEAR: u64 = 2048;
    match (kind, value) {
        (ColumnType::UInt, Value::Float(number)) if (BEYOND..=2.0 * BEYOND).contains(number) => {
            let near = *number as u64;
            let (first, last) = (near.saturating_sub(NEAR), near.saturating_add(NEAR));
            Some((Bound::Included(Value::UInt(first)), Bound::Included(Value::UInt(last))))
        }
        _ => None,
    }
}

/// A bound of a part that leaves out no value beyond `value`, and as few others as is simple; `None`: all.
fn bound(kind: ColumnType, value: Value<'_>, edge: Edge, is_lower: bool) -> Option<Bound<Value<'_>>> {
    let exact = |value| match edge {
        Edge::Excluded => Bound::Excluded(value),
        _ => Bound::Included(value),
    };
    // Where types differ: numbers, then texts, then bytes. Nothing is above all, everything is above nothing.
    let rank = |value: &Value<'_>| match value {
        Value::Text(_) => 1,
        Value::Bytes(_) => 2,
        _ => 0,
    };
    let own_rank = match kind {
        ColumnType::Any => return Some(exact(value)),
        ColumnType::Text => 1,
        ColumnType::Bytes => 2,
        ColumnType::Int | ColumnType::Float => 0,
        // Of columns that SQL did not make: SQLite compares.
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

/// A bound of integers: the first or the last of those that are at, above or below `number`.
fn beside(number: f64, edge: Edge, is_lower: bool) -> Option<Bound<Value<'static>>> {
    let is_strict = edge == Edge::Excluded;
    // As wide as it takes for what no column holds; the conversion stops at the ends.
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

    /// Of every integer near a float, and at the ends, the bound says what the comparison says.
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
