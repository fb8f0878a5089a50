//! The bounds of a scan: the values that SQLite passes for a plan's comparisons, converted to values of key parts.

use crate::affinity::Affinity;
use crate::change::coerce;
use crate::plan::{Edge, Plan};
use crate::vtab::Arguments;
use rows::{Bounds, ColumnType, Value};
use rusqlite::types::ValueRef;
use std::ops::Bound;

/// Returns the bounds of a plan, or `None` if no row can be within them. `part_type` returns the type of a part of the
/// plan's way.
///
/// If types differ, the bounds may include rows that do not match, but they never exclude one that does. If a part
/// holds only integers, the bounds are exact ([`is_exact`]).
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
        // A primary key has no nulls.
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
        // A text that is a number sorts before all other texts if it is compared with an operand of a numeric type.
        let is_below_texts = !is_lower && is_soft(kind, affinity) && matches!(given, ValueRef::Text(_));
        if plan.is_soft && (is_below_texts || may_convert(kind, affinity, given)) {
            continue;
        }
        let value = affinity.apply(given);
        let side = if is_lower { &mut bounds.lower } else { &mut bounds.upper };
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
    // Nulls sort before all values, and are in no range, even an unbounded one.
    let is_range = plan.lower != Edge::Open || plan.upper != Edge::Open;
    if plan.way > 0 && is_range && matches!(bounds.lower, Bound::Unbounded) {
        bounds.lower = Bound::Excluded(Value::Null);
    }
    Some(bounds)
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

/// Returns the value that a part must have to be equal to `value`; `None`: there is none.
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
        // This float is equal to an integer, but no column would store it as one.
        (ColumnType::Int, Value::Float(number)) if *number == i64::MIN as f64 => Some(Value::Int(i64::MIN)),
        _ => coerce(kind, value).ok(),
    }
}

/// Returns the first and the last of about all unsigned integers that are shown as this float, which stands for many.
/// `None`: the value is a different one.
fn shown_as(kind: ColumnType, value: &Value<'_>) -> Option<(Bound<Value<'static>>, Bound<Value<'static>>)> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    // The distance of two floats in that range. No integer is shown as a float further away.
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

/// Returns a bound of a part that excludes no value beyond `value`, and includes few others; `None`: all values match.
fn bound(kind: ColumnType, value: Value<'_>, edge: Edge, is_lower: bool) -> Option<Bound<Value<'_>>> {
    let exact = |value| match edge {
        Edge::Excluded => Bound::Excluded(value),
        _ => Bound::Included(value),
    };
    // If types differ, numbers sort before texts, and texts before bytes. Nothing is above all, and everything is above
    // nothing.
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
