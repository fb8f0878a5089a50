//! The runs of an LSM table: deltas, newest first. The lowest holds no deletes.
//!
//! # Roles
//! Most deltas *rest*. While some are merged into one, they *move*, and the delta right below them *fills*. Each round
//! moves a slice of keys from these to that one, in ascending order, so that the keys of the filling delta come before
//! those of the moving ones, and no key is in both. A round ends with a checkpoint: after a crash it is done or not
//! begun.
//!
//! # Rows
//! A stack has a row of the physical catalog for each delta. The key is the table id, 4 bytes big-endian, and the
//! position, 1 byte: 0 is the newest. The value is:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | tag 2 |
//! | 1 | role: 0 rests, 1 moves, 2 fills |
//! | 2-145 | the delta: see [`run::delta`] |

use base::slots::EpochGuard;
use base::{Error, Result, TableId};
use pool::Pool;
use run::{Delta, Probe, RecordPosition, Run, Said};
use std::sync::Arc;

/// The number of neighbours of a class that are merged; simulations merge fewer.
pub const FAN: usize = 10;
/// The most deltas that a table may have: a read checks each one's filter, and a scan merges them all.
pub const MOST_STACKED: usize = 48;
/// The memory limit of the range deletes that one delta of a stack keeps, in bytes: reads check them.
pub const MOST_RANGES_BYTES: usize = 64 << 10;

/// The role of a delta in merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The delta rests: no merge uses it.
    Rests,
    /// The delta's records move down, beginning with the first key.
    Moves,
    /// The delta receives the records of the moving ones right above it.
    Fills,
}

impl Role {
    fn byte(self) -> u8 {
        match self {
            Role::Rests => 0,
            Role::Moves => 1,
            Role::Fills => 2,
        }
    }

    fn of_byte(byte: u8) -> Option<Role> {
        [Role::Rests, Role::Moves, Role::Fills].into_iter().find(|role| role.byte() == byte)
    }
}

/// One delta of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacked {
    /// The delta itself.
    pub delta: Delta,
    /// The role of the delta.
    pub role: Role,
}

impl Stacked {
    /// The length of a row's value in bytes.
    pub const BYTES: usize = 1 + Delta::BYTES;

    /// Returns a delta at rest.
    pub fn rests(delta: Delta) -> Self {
        Stacked { delta, role: Role::Rests }
    }

    /// Returns whether the delta has no effect.
    pub fn is_empty(&self) -> bool {
        self.delta.records.root.is_none() && self.delta.ranges.is_empty()
    }

    /// Returns a row's value after its tag.
    pub fn encode(&self) -> Vec<u8> {
        [&[self.role.byte()][..], &self.delta.encode()].concat()
    }

    /// Returns the role and the encoded delta in a row's value after its tag.
    pub fn parts(table: TableId, bytes: &[u8]) -> Result<(Role, &[u8; Delta::BYTES])> {
        let parts = || {
            let (&role, delta) = bytes.split_first()?;
            Some((Role::of_byte(role)?, delta.try_into().ok()?))
        };
        parts().ok_or_else(|| {
            let length = bytes.len();
            Error::corruption(format!(
                "physical row of {table}: {length} bytes are not a valid delta of a stack"
            ))
        })
    }
}

/// The deltas of a table, newest first; at least one. Cloning is cheap.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    entries: Arc<[Stacked]>,
}

impl Stack {
    /// Returns the stack of `entries`; `None` if there are none.
    pub fn new(entries: Vec<Stacked>) -> Option<Stack> {
        (!entries.is_empty()).then(|| Stack { entries: entries.into() })
    }

    /// Returns the stack of `entries` that were read from the disk.
    ///
    /// Errors: [`Corruption`](base::ErrorKind::Corruption) if no checkpoint can have written them.
    pub fn check(table: TableId, entries: Vec<Stacked>) -> Result<Stack> {
        let wrong = |what: &str| Error::corruption(format!("physical rows of {table}: {what}"));
        let Some(last) = entries.last() else { return Err(wrong("the stack has no delta")) };
        if entries.len() > MOST_STACKED {
            return Err(wrong("the stack has more deltas than a table may have"));
        }
        if last.delta.records.deletes || last.delta.ranges_run.root.is_some() {
            return Err(wrong("the lowest delta contains deletes, but no run is below it"));
        }
        let follows = |pair: &[Stacked]| match (pair[0].role, pair[1].role) {
            (Role::Moves, next) => next != Role::Rests,
            (_, next) => next != Role::Fills,
        };
        if !entries.windows(2).all(follows) || last.role == Role::Moves || entries[0].role == Role::Fills {
            return Err(wrong("the roles of the deltas contradict each other"));
        }
        let filling = entries.iter().filter(|entry| entry.role == Role::Fills);
        if filling.map(|entry| &entry.delta).any(|d| d.records.root.is_some() && d.filter.root.is_none()) {
            return Err(wrong("a delta that fills has no filter"));
        }
        Ok(Stack { entries: entries.into() })
    }

    /// Returns the deltas, newest first.
    #[inline]
    pub fn entries(&self) -> &[Stacked] {
        &self.entries
    }

    /// Returns the deltas above the lowest one, and the records of that one.
    #[inline]
    pub fn layers(&self) -> (&[Stacked], Run) {
        let (lowest, above) = self.entries.split_last().expect("a stack has at least one delta");
        (above, lowest.delta.records)
    }

    /// Finds the record of `key` that counts, which may be a delete.
    // Not a part of the gets of B+trees, which it would make longer.
    #[inline(never)]
    pub fn find(
        &self,
        pool: &Pool,
        guard: &mut EpochGuard<'_>,
        key: &[u8],
    ) -> Result<Option<RecordPosition>> {
        let probe = Probe::new(key);
        Ok(match Delta::find_stacked(&self.entries, |entry| &entry.delta, pool, guard, probe)? {
            Some(Said::Record(position)) => Some(position),
            Some(Said::Covered) | None => None,
        })
    }
}
