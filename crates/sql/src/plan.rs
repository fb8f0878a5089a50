//! Chooses the way by which a query reads a table: its primary key, or an index.
//!
//! 1. Every way is tried. Its first parts are bound by equalities, as far as there are any, and the next part by a
//!    lower and an upper bound.
//! 2. The requested order costs nothing if, apart from columns bound to one value, it is that of the following parts,
//!    all forwards or all backwards.
//! 3. The cheapest way is chosen, in row look-ups, by the estimates that SQLite uses without statistics.
//!
//! SQLite still checks every row against the whole `WHERE`, except for comparisons that the bounds decide exactly
//! (`bounds.rs`). A scan may therefore return more rows than requested, and never fewer.

use crate::vtab::{Choice, Constraint, Operator};
use rows::Collation;
use std::fmt::Write;

/// One way into a table.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The name of the index; empty for the primary key.
    pub name: String,
    pub parts: Vec<WayPart>,
    /// The number of parts that can be bound. After those of an index that is not unique, the primary key only gives
    /// order.
    pub own_parts: usize,
    /// The number of parts that identify one row, apart from nulls.
    pub unique_parts: usize,
    /// Whether no two rows are equal in all parts, so that the order of the parts is total.
    pub is_total: bool,
    /// Whether its entries have all columns of the rows.
    pub is_primary: bool,
    /// The columns that an entry contains; `None` if it does not contain the whole primary key.
    pub covered: Option<Vec<Option<usize>>>,
}

/// A part of a way.
#[derive(Clone, Debug)]
pub(crate) struct WayPart {
    /// The column; `None` for the row's id.
    pub column: Option<usize>,
    pub name: String,
    pub descending: bool,
    /// The collation of texts; `None` if it has none.
    pub collation: Option<Collation>,
    /// The collation of its column, which a requested order uses.
    pub own_collation: Option<Collation>,
    /// Whether its bounds accept exactly the rows that the comparison accepts.
    pub is_exact: bool,
    /// Whether SQL shows different values, apart from nulls, as different ones. An equality with a part that is not
    /// distinct can accept several values.
    pub is_distinct: bool,
    /// Whether its order is that of the values as SQL shows them.
    pub is_ordered: bool,
    /// Whether the operand of a comparison may convert its values: those of texts, and those of any type. See
    /// `plain.rs`.
    pub is_soft: bool,
}

impl WayPart {
    fn matches(&self, constraint: &Constraint) -> bool {
        constraint.column == self.column
            && (self.collation.is_none() || self.collation == constraint.collation)
    }
}

/// A bound of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edge {
    #[default]
    Open,
    Included,
    Excluded,
}

/// A scan, encoded in 32 bits for SQLite. Its values are in this order: those of the equalities, the lower bound, the
/// upper bound, the limit, the offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The number of the way: 0 is the primary key.
    pub way: u8,
    /// The number of parts that are bound by equalities.
    pub equal: u8,
    /// The equalities in which null is equal to null, as bits.
    pub nulls: u8,
    pub lower: Edge,
    pub upper: Edge,
    /// Whether the scan runs against the way's order.
    pub backwards: bool,
    pub has_limit: bool,
    pub has_offset: bool,
    /// Whether the way's entries, or the primary key alone, contain everything that is needed.
    pub is_covered: bool,
    /// Whether values may come from columns and subqueries, so that bounds of soft parts may accept more rows.
    pub is_soft: bool,
}

/// The largest number of parts that are bound by equalities.
const MOST_EQUAL: usize = 8;
/// The largest number of ways that are considered: what 7 bits can number.
pub(crate) const MOST_WAYS: usize = 127;

impl Plan {
    pub fn to_number(self) -> i32 {
        let edge = |edge| match edge {
            Edge::Open => 0,
            Edge::Included => 1,
            Edge::Excluded => 2,
        };
        let flags = [self.backwards, self.has_limit, self.has_offset, self.is_covered];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | i32::from(*flag));
        i32::from(self.way) << 24
            | i32::from(self.nulls) << 16
            | i32::from(self.is_soft) << 12
            | i32::from(self.equal) << 8
            | edge(self.lower) << 6
            | edge(self.upper) << 4
            | flags
    }

    pub fn from_number(number: i32) -> Self {
        let edge = |bits| match bits & 3 {
            0 => Edge::Open,
            1 => Edge::Included,
            _ => Edge::Excluded,
        };
        let flag = |bit: u32| number >> bit & 1 == 1;
        Plan {
            way: (number >> 24) as u8,
            nulls: (number >> 16) as u8,
            equal: (number >> 8) as u8 & 15,
            is_soft: flag(12),
            lower: edge(number >> 6),
            upper: edge(number >> 4),
            backwards: flag(0),
            has_limit: flag(1),
            has_offset: flag(2),
            is_covered: flag(3),
        }
    }
}

/// The requirements of a query.
pub(crate) struct Asked<'a> {
    /// The constraints that can be used, each with its index.
    pub constraints: &'a [(usize, Constraint)],
    /// The requested order: columns, `None` for the row's id, and whether each descends.
    pub order: &'a [(Option<usize>, bool)],
    /// Returns whether the query uses a column.
    pub uses: &'a dyn Fn(usize) -> bool,
    /// The approximate number of rows of the table.
    pub rows: f64,
    /// Whether values are only literals, parameters and functions of such.
    pub is_plain: bool,
    /// Returns the column's name if a scan can find rows by this column alone, with a transient index.
    pub indexable: &'a dyn Fn(usize) -> Option<&'a str>,
}

/// Returns the cheapest of the ways.
pub(crate) fn choose(ways: &[Way], asked: &Asked<'_>) -> Choice {
    let tried =
        ways.iter().take(MOST_WAYS).enumerate().map(|(number, way)| try_way(number as u8, way, asked));
    let cheapest = tried.min_by(|a, b| a.cost.total_cmp(&b.cost));
    let cheapest = cheapest.expect("a table has a primary key");
    match transient(asked) {
        Some(transient) if transient.cost < cheapest.cost => transient,
        _ => cheapest,
    }
}

/// The way of a plan whose scan makes an index for itself: see `transient.rs`.
pub(crate) const TRANSIENT_WAY: u8 = 127;
const _: () = assert!(TRANSIENT_WAY as usize >= MOST_WAYS);
/// The number of rows below which a table is read repeatedly instead.
const LEAST_TRANSIENT_ROWS: f64 = 64.0;

/// Returns a plan by an equality with a column of another table, for a column without an index.
fn transient(asked: &Asked<'_>) -> Option<Choice> {
    if asked.is_plain || asked.rows < LEAST_TRANSIENT_ROWS {
        return None;
    }
    let mut equalities = asked.constraints.iter().filter_map(|(index, constraint)| {
        let column = constraint
            .column
            .filter(|column| constraint.op == Operator::Equal && !constraint.is_in && *column < 1 << 15)?;
        let name = (asked.indexable)(column).filter(|_| constraint.collation.is_some())?;
        Some((*index, column, name))
    });
    let (index, column, name) = equalities.next()?;
    Some(Choice {
        plan: i32::from(TRANSIENT_WAY) << 24 | (column as i32) << 8,
        label: format!("TRANSIENT INDEX ({name}=?)"),
        arguments: vec![index],
        cost: asked.rows.log2() + 10.0 * COST_OF_ENTRY,
        rows: 10.0,
        ..Choice::default()
    })
}

/// Returns the column of which a plan makes an index, if it makes one.
pub(crate) fn transient_column(plan: i32) -> Option<usize> {
    (plan >> 24 == i32::from(TRANSIENT_WAY)).then_some((plan >> 8 & 0xffff) as usize)
}

fn try_way(number: u8, way: &Way, asked: &Asked<'_>) -> Choice {
    let mut plan = Plan { way: number, ..Plan::default() };
    let mut arguments = Vec::new();
    let mut decided = Vec::new();
    let mut label = Vec::new();
    // After a part whose bounds may accept more rows, parts may not be bound at all.
    let (mut certain, mut is_certain) = (0, true);
    for part in way.parts.iter().take(way.own_parts.min(MOST_EQUAL)) {
        let equality = |op| find(asked, part, |other| other == op);
        let Some((index, op)) = equality(Operator::Equal).or_else(|| equality(Operator::Is)) else { break };
        plan.nulls |= u8::from(op == Operator::Is) << plan.equal;
        plan.is_soft |= part.is_soft && !asked.is_plain;
        // Where the order is another one, SQL shows other values as NULL, too.
        let is_one = part.is_distinct && (part.is_ordered || op == Operator::Equal);
        is_certain &= is_one && !plan.is_soft;
        certain += usize::from(is_certain);
        plan.equal += 1;
        arguments.push(index);
        decided.extend((part.is_exact && is_certain).then_some(index));
        label.push(format!("{}=?", part.name));
    }
    let equal = usize::from(plan.equal);
    let mut bounds = 0;
    if let Some(part) = way.parts[..way.own_parts].get(equal) {
        let lower = find(asked, part, |op| matches!(op, Operator::Greater | Operator::GreaterOrEqual));
        let upper = find(asked, part, |op| matches!(op, Operator::Less | Operator::LessOrEqual));
        for (found, edge, sign) in [(lower, &mut plan.lower, '>'), (upper, &mut plan.upper, '<')] {
            let Some((index, op)) = found else { continue };
            let is_strict = matches!(op, Operator::Greater | Operator::Less);
            *edge = if is_strict { Edge::Excluded } else { Edge::Included };
            plan.is_soft |= part.is_soft && !asked.is_plain;
            arguments.push(index);
            decided.extend((part.is_exact && is_certain && !plan.is_soft).then_some(index));
            label.push(format!("{}{sign}?", part.name));
            bounds += 1;
        }
    }
    let order = direction(way, certain, asked.order);
    plan.backwards = order == Some(true);
    plan.is_covered = covers(way, asked);
    let used = arguments.len();
    for (op, flag) in [(Operator::Limit, &mut plan.has_limit), (Operator::Offset, &mut plan.has_offset)] {
        if let Some((index, _)) = asked.constraints.iter().find(|(_, constraint)| constraint.op == op) {
            *flag = true;
            arguments.push(*index);
        }
    }
    let is_unique = certain >= way.unique_parts && plan.nulls == 0;
    let rows = expected(asked.rows, equal, bounds, is_unique);
    // If the scan uses all conditions and has the requested order, it ends with the limit.
    let compared = asked.constraints.iter().filter(|(_, constraint)| !is_limit(constraint.op)).count();
    let stops = plan.has_limit && order.is_some() && compared == used;
    let looked_at = if stops { rows.min(100.0) } else { rows };
    let is_sorted = order.is_some() || asked.order.is_empty();
    let sorting = if is_sorted { 0.0 } else { rows * rows.max(2.0).log2() * COST_OF_COMPARISON };
    let cost = asked.rows.max(2.0).log2() * 0.5 + looked_at * cost_of_row(way, plan) + sorting;
    Choice {
        plan: plan.to_number(),
        label: describe(way, plan, &label),
        arguments,
        decided,
        is_ordered: order.is_some() && !asked.order.is_empty(),
        is_unique,
        cost,
        rows,
    }
}

fn is_limit(op: Operator) -> bool {
    matches!(op, Operator::Limit | Operator::Offset)
}

fn find(asked: &Asked<'_>, part: &WayPart, wanted: impl Fn(Operator) -> bool) -> Option<(usize, Operator)> {
    let mut all = asked.constraints.iter();
    let is_usable = |constraint: &Constraint| asked.is_plain || !part.is_soft || !constraint.is_in;
    let found = all
        .find(|(_, constraint)| wanted(constraint.op) && part.matches(constraint) && is_usable(constraint));
    found.map(|(index, constraint)| (*index, constraint.op))
}

/// Returns whether the way has the requested order, with `equal` parts bound: `Some(true)` backwards.
fn direction(way: &Way, equal: usize, order: &[(Option<usize>, bool)]) -> Option<bool> {
    let (bound, rest) = way.parts.split_at(equal);
    let mut rest = rest.iter();
    let mut backwards = None;
    let mut is_over = false;
    for &(column, descending) in order {
        // Texts that are equal by another collation than the order's are not necessarily in its order.
        let is_one = |part: &WayPart| part.column == column && part.collation == part.own_collation;
        if bound.iter().any(is_one) {
            continue;
        }
        // Rows that SQL shows with the same value are not in the order of what follows.
        if is_over {
            return None;
        }
        let Some(part) = rest.next() else {
            // All parts are used. If they identify rows, no two rows are left to order.
            if way.is_total {
                break;
            }
            return None;
        };
        if part.column != column || part.collation != part.own_collation || !part.is_ordered {
            return None;
        }
        is_over = !part.is_distinct;
        if *backwards.get_or_insert(descending != part.descending) != (descending != part.descending) {
            return None;
        }
    }
    Some(backwards.unwrap_or(false))
}

fn covers(way: &Way, asked: &Asked<'_>) -> bool {
    let Some(covered) = &way.covered else { return false };
    // The 64th bit stands for all columns from there on, so the column is not known.
    (0..64).all(|column| !(asked.uses)(column) || column < 63 && covered.contains(&Some(column)))
}

fn expected(rows: f64, equal: usize, bounds: u32, is_unique: bool) -> f64 {
    if is_unique {
        return 1.0;
    }
    let by_equality = if equal == 0 { rows } else { (rows / 2.0).min(10.0 / equal as f64) };
    (by_equality / f64::from(4u32.pow(bounds))).max(1.0)
}

fn cost_of_row(way: &Way, plan: Plan) -> f64 {
    match (way.is_primary, plan.is_covered) {
        (true, _) => 1.0,
        (_, true) => 0.9,
        _ => COST_OF_ENTRY,
    }
}

/// The cost of comparing two rows in a sort, in look-ups.
const COST_OF_COMPARISON: f64 = 0.2;
/// The cost of a row to which an entry leads, in look-ups.
const COST_OF_ENTRY: f64 = 3.5;

/// Returns the text for `EXPLAIN QUERY PLAN`, in the words that SQLite uses for its own tables.
fn describe(way: &Way, plan: Plan, bounds: &[String]) -> String {
    let mut label = match (way.is_primary, plan.is_covered) {
        (true, _) => "PRIMARY KEY".to_owned(),
        (_, true) => format!("COVERING INDEX {}", way.name),
        _ => format!("INDEX {}", way.name),
    };
    if !bounds.is_empty() {
        let _ = write!(label, " ({})", bounds.join(" AND "));
    }
    if plan.backwards {
        label.push_str(" DESC");
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(name: &str, parts: &[(Option<usize>, bool)], unique_parts: usize) -> Way {
        let part = |&(column, descending): &(Option<usize>, bool)| WayPart {
            column,
            name: column.map_or("rowid".to_owned(), |column| format!("c{column}")),
            descending,
            collation: Some(Collation::Binary),
            own_collation: Some(Collation::Binary),
            is_exact: column == Some(0),
            is_distinct: true,
            is_ordered: true,
            is_soft: false,
        };
        let covered = Some(parts.iter().map(|(column, _)| *column).chain([Some(0)]).collect());
        let parts: Vec<_> = parts.iter().map(part).collect();
        let own_parts = parts.len() - usize::from(!name.is_empty() && unique_parts == usize::MAX);
        Way {
            name: name.to_owned(),
            parts,
            own_parts,
            unique_parts,
            is_total: true,
            is_primary: name.is_empty(),
            covered,
        }
    }

    /// The ways: key c0; an index over c1 and, descending, c2; a unique one over c3.
    fn ways() -> Vec<Way> {
        vec![
            way("", &[(Some(0), false)], 1),
            way("by_1_2", &[(Some(1), false), (Some(2), true), (Some(0), false)], usize::MAX),
            way("by_3", &[(Some(3), false)], 1),
        ]
    }

    fn chosen(constraints: &[(usize, Operator)], order: &[(Option<usize>, bool)], used: &[usize]) -> Choice {
        let collation = Some(Collation::Binary);
        let constraints = constraints.iter().enumerate().map(|(index, &(column, op))| {
            (
                index,
                Constraint { column: Some(column).filter(|_| !is_limit(op)), op, collation, is_in: false },
            )
        });
        let constraints = constraints.collect::<Vec<_>>();
        let uses = |column: usize| used.contains(&column);
        let indexable = |_| None;
        let asked = Asked {
            constraints: &constraints,
            order,
            uses: &uses,
            rows: 1e6,
            is_plain: true,
            indexable: &indexable,
        };
        choose(&ways(), &asked)
    }

    #[test]
    fn the_cheapest_way_is_chosen_and_named() {
        use Operator::{Equal, Greater, Is, LessOrEqual, Limit};
        let label = |constraints: &[(usize, Operator)], order: &[(Option<usize>, bool)]| {
            let choice = chosen(constraints, order, &[0, 1, 2, 3, 4]);
            format!("{}{}", choice.label, if choice.is_ordered { " ordered" } else { "" })
        };
        assert_eq!(label(&[], &[]), "PRIMARY KEY");
        assert_eq!(label(&[(0, Equal)], &[(Some(4), true)]), "PRIMARY KEY (c0=?) ordered");
        assert_eq!(label(&[(3, Equal)], &[]), "INDEX by_3 (c3=?)");
        assert_eq!(label(&[(4, Equal)], &[(Some(0), true)]), "PRIMARY KEY DESC ordered");
        assert_eq!(label(&[(1, Equal), (2, Greater)], &[]), "INDEX by_1_2 (c1=? AND c2>?)");
        assert_eq!(
            label(&[(1, Is), (2, Greater), (2, LessOrEqual)], &[(Some(2), true)]),
            "INDEX by_1_2 (c1=? AND c2>? AND c2<?) ordered"
        );
        assert_eq!(label(&[(1, Equal)], &[(Some(2), false)]), "INDEX by_1_2 (c1=?) DESC ordered");
        assert_eq!(
            label(&[(1, Equal)], &[(Some(1), true), (Some(2), true), (Some(0), true)]),
            "INDEX by_1_2 (c1=?)"
        );
        assert_eq!(label(&[(9, Limit)], &[(Some(1), true), (Some(2), false)]), "INDEX by_1_2 DESC ordered");
        assert_eq!(chosen(&[(1, Equal)], &[], &[1, 2]).label, "COVERING INDEX by_1_2 (c1=?)");
        let decided = chosen(&[(3, Equal), (0, Greater), (0, LessOrEqual)], &[], &[0]).decided;
        assert!(decided.is_empty(), "by_3 is not exact");
        let both = chosen(&[(0, Greater), (4, Equal), (0, LessOrEqual), (0, Greater)], &[], &[0]);
        assert_eq!(both.decided, [0, 2], "and the second lower bound is SQLite's to check");
        for (used, is_covered) in [(&[0][..], true), (&[], true), (&[0, 1], false)] {
            assert_eq!(Plan::from_number(chosen(&[(0, Equal)], &[], used).plan).is_covered, is_covered);
        }
    }

    #[test]
    fn a_plan_goes_through_a_number() {
        let edges = [Edge::Open, Edge::Included, Edge::Excluded];
        for (way, equal, nulls) in [(0, 0, 0), (64, 8, 255), (126, 3, 5)] {
            for (lower, upper) in edges.iter().flat_map(|lower| edges.map(|upper| (*lower, upper))) {
                for bits in 0..32 {
                    let flag = |bit: i32| bits >> bit & 1 == 1;
                    let plan = Plan {
                        way,
                        equal,
                        nulls,
                        lower,
                        upper,
                        backwards: flag(0),
                        has_limit: flag(1),
                        has_offset: flag(2),
                        is_covered: flag(3),
                        is_soft: flag(4),
                    };
                    assert_eq!(Plan::from_number(plan.to_number()), plan);
                }
            }
        }
    }
}
