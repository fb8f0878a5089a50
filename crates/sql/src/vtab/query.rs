//! The query for which a table chooses a plan, and the choice.

use super::host::owned_string;
use crate::machine::ffi;
use rows::Collation;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;

/// The constraints, order and columns of a query.
pub(crate) struct Query<'a> {
    info: *mut ffi::sqlite3_index_info,
    lent: PhantomData<&'a ()>,
}

/// The constraint `column op value`, whose value is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constraint {
    /// The column; `None` for the row's id.
    pub column: Option<usize>,
    pub op: Operator,
    /// The collation of texts; `None` if it is unknown to tables.
    pub collation: Option<Collation>,
    /// Whether it is an `IN`, whose values are passed one by one. Rows are then compared with a value that has lost its
    /// affinity.
    pub is_in: bool,
}

/// The operator of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    /// `IS`, `IS NULL`: same as equal, and null is equal to null.
    Is,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Limit,
    Offset,
}

/// The choice of [`Table::best_index`].
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// The plan that is passed to [`Cursor::filter`].
    pub plan: i32,
    /// The text of `EXPLAIN QUERY PLAN`.
    pub label: String,
    /// The constraints, by their index, whose values `filter` gets in this order.
    pub arguments: Vec<usize>,
    /// Those of them that every returned row certainly meets, so that SQLite need not check.
    pub decided: Vec<usize>,
    /// Whether rows are in the requested order.
    pub is_ordered: bool,
    /// Whether there is at most one row.
    pub is_unique: bool,
    /// The approximate cost, in row look-ups.
    pub cost: f64,
    /// The expected number of rows.
    pub rows: f64,
}

impl Query<'_> {
    /// # Safety
    /// `info` is SQLite's, within `xBestIndex`, for as long as the query lives.
    pub(super) unsafe fn new(info: *mut ffi::sqlite3_index_info) -> Self {
        Query { info, lent: PhantomData }
    }

    fn info(&self) -> &ffi::sqlite3_index_info {
        // SAFETY: SQLite lends it for the length of `xBestIndex`, during which this lives.
        unsafe { &*self.info }
    }

    /// Returns the constraints that can be used, each with its index.
    pub fn constraints(&self) -> Vec<(usize, Constraint)> {
        let info = self.info();
        let count = usize::try_from(info.nConstraint).unwrap_or(0);
        (0..count).filter_map(|index| Some((index, self.constraint(index)?))).collect()
    }

    /// Returns whether the query compares this column with a value of a later table, which is not known yet.
    pub fn is_out_of_reach(&self, column: usize) -> bool {
        let count = usize::try_from(self.info().nConstraint).unwrap_or(0);
        (0..count).any(|index| {
            // SAFETY: `index` is below `nConstraint`, the length of the array.
            let raw = unsafe { &*self.info().aConstraint.add(index) };
            raw.usable == 0 && usize::try_from(raw.iColumn) == Ok(column)
        })
    }

    fn constraint(&self, index: usize) -> Option<Constraint> {
        // SAFETY: `index` is below `nConstraint`, the length of the array.
        let raw = unsafe { &*self.info().aConstraint.add(index) };
        let op = match c_int::from(raw.op) {
            ffi::SQLITE_INDEX_CONSTRAINT_EQ => Operator::Equal,
            ffi::SQLITE_INDEX_CONSTRAINT_IS | ffi::SQLITE_INDEX_CONSTRAINT_ISNULL => Operator::Is,
            ffi::SQLITE_INDEX_CONSTRAINT_GT => Operator::Greater,
            ffi::SQLITE_INDEX_CONSTRAINT_GE => Operator::GreaterOrEqual,
            ffi::SQLITE_INDEX_CONSTRAINT_LT => Operator::Less,
            ffi::SQLITE_INDEX_CONSTRAINT_LE => Operator::LessOrEqual,
            ffi::SQLITE_INDEX_CONSTRAINT_LIMIT => Operator::Limit,
            ffi::SQLITE_INDEX_CONSTRAINT_OFFSET => Operator::Offset,
            _ => return None,
        };
        let collation = match op {
            Operator::Limit | Operator::Offset => None,
            // SAFETY: within `xBestIndex`, with an index below `nConstraint`; SQLite returns a static string or null.
            _ => unsafe {
                let name = ffi::sqlite3_vtab_collation(self.info, index as c_int);
                if name.is_null() { None } else { collation_of(&CStr::from_ptr(name).to_string_lossy()) }
            },
        };
        let column = usize::try_from(raw.iColumn).ok();
        // SAFETY: as above; the last argument asks without changing anything.
        let is_in =
            op == Operator::Equal && unsafe { ffi::sqlite3_vtab_in(self.info, index as c_int, -1) != 0 };
        (raw.usable != 0).then_some(Constraint { column, op, collation, is_in })
    }

    /// Returns the requested order: columns, `None` for the row's id, and whether each descends.
    pub fn order(&self) -> Vec<(Option<usize>, bool)> {
        let info = self.info();
        let count = usize::try_from(info.nOrderBy).unwrap_or(0);
        // SAFETY: `index` is below `nOrderBy`, the length of the array.
        let terms = (0..count).map(|index| unsafe { &*info.aOrderBy.add(index) });
        terms.map(|term| (usize::try_from(term.iColumn).ok(), term.desc != 0)).collect()
    }

    /// Returns whether the query uses a column. Columns from the 64th on count as one.
    pub fn uses(&self, column: usize) -> bool {
        self.info().colUsed >> column.min(63) & 1 == 1
    }

    /// Passes the choice to SQLite.
    pub(super) fn choose(self, choice: &Choice) {
        // SAFETY: SQLite lends it for the length of `xBestIndex`, and no other reference to it lives: `self` is gone.
        let info = unsafe { &mut *self.info };
        for (position, &index) in choice.arguments.iter().enumerate() {
            // SAFETY: indices come from `constraints`, so below `nConstraint`, the length of this array too.
            let usage = unsafe { &mut *info.aConstraintUsage.add(index) };
            usage.argvIndex = position as c_int + 1;
            usage.omit = u8::from(choice.decided.contains(&index));
        }
        info.idxNum = choice.plan;
        info.idxStr = owned_string(&choice.label);
        info.needToFreeIdxStr = c_int::from(!info.idxStr.is_null());
        info.orderByConsumed = c_int::from(choice.is_ordered);
        info.estimatedCost = choice.cost;
        info.estimatedRows = choice.rows.max(1.0) as i64;
        if choice.is_unique {
            info.idxFlags |= ffi::SQLITE_INDEX_SCAN_UNIQUE;
        }
    }
}

/// Returns the collation of that name.
pub(crate) fn collation_of(name: &str) -> Option<Collation> {
    match name.to_ascii_uppercase().as_str() {
        "BINARY" => Some(Collation::Binary),
        "NOCASE" => Some(Collation::NoCase),
        "RTRIM" => Some(Collation::RTrim),
        _ => None,
    }
}
