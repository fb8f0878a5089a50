//! Codes and choices: the numbers of the interface.

use binding::Kind;
use pando::{Compression, Durability, ErrorKind, Isolation, Layout};
use std::ffi::{CStr, c_char, c_int};

use binding::{Failure, Outcome};

/// What a call returns. The low byte is the exit code of the command `pando` for this kind of failure.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pando_code {
    /// The call succeeded.
    PANDO_OK = 0,
    /// The key does not exist, or a cursor is at its end. There is no error object.
    PANDO_ABSENT = 1,
    /// The disk, a quota or the memory budget is full. Nothing was written; free space or memory and try again.
    PANDO_FULL = 0x101,
    /// The key, table, database or file already exists.
    PANDO_EXISTS = 0x201,
    /// The key, table, database or file does not exist.
    PANDO_MISSING = 0x301,
    /// A call that must not wait needs something that is not in memory.
    PANDO_WOULD_WAIT = 0x401,
    /// The database is read-only, and the call would write. Open it for writing.
    PANDO_READ_ONLY = 0x501,
    /// A call of the operating system failed.
    PANDO_IO = 0x601,
    /// An earlier failure stopped all writing; reads go on. Close the database, fix the cause, and open it again.
    PANDO_LATCHED = 0x701,
    /// The commit may or may not survive: it was written, but its sync failed. Open the database again to find out.
    PANDO_INDETERMINATE = 0x801,
    /// The object has ended: the database was closed, or the transaction was committed or rolled back. Open the
    /// database again, or begin a new transaction.
    PANDO_CLOSED = 0x901,
    /// The object was inherited through a fork. Open the database in the child after the parent has closed it.
    PANDO_FORKED = 0xA01,
    /// A defect in Pando was caught. Please report its message.
    PANDO_INTERNAL = 0xB01,
    /// A failure of a kind that this version of the interface does not know.
    PANDO_FAILED = 0xC01,
    /// The changes that were asked for are no longer kept. The message names a commit from which to begin again.
    PANDO_TOO_OLD = 0xD01,
    /// A row violates a constraint of its table.
    PANDO_CONSTRAINT = 0xE01,
    /// A statement of SQL was stopped by pando_sql_interrupt, and its own transaction was rolled back; or the function
    /// that gets the progress of long work has ended it.
    PANDO_INTERRUPTED = 0xF01,
    /// Another writer has taken over the lineage of shipped commits. Stop writing here, and restore from the bucket.
    PANDO_FENCED = 0x1001,
    /// An argument is out of range, or a call does not fit its object.
    PANDO_INVALID = 2,
    /// The options contradict the stored ones.
    PANDO_MISMATCH = 0x102,
    /// The arguments are ones that no correct program gives: NULL where a handle or an output is needed, or a handle
    /// of another type.
    PANDO_MISUSE = 0x202,
    /// Another call uses the object at this moment. Use one object for each thread.
    PANDO_IN_USE = 0x302,
    /// The buffer is too short. The length that is needed was stored.
    PANDO_TOO_SMALL = 0x402,
    /// Bytes differ from what was written. Restore a backup, or salvage the database.
    PANDO_CORRUPT = 3,
    /// The files are not a Pando database, belong to another one, or have a version that this library does not know.
    PANDO_FOREIGN = 0x103,
    /// Another handle has the database, consumer or folder open, often in another process. Close it there.
    PANDO_LOCKED = 4,
    /// Another transaction changed what this one has read. Nothing was written; run the transaction again.
    PANDO_CONFLICT = 5,
    /// The snapshot or transaction was open for so long that it has expired. Nothing was written; begin a new one.
    PANDO_SNAPSHOT_TOO_OLD = 0x105,
}

use pando_code::*;

/// Every code with its name.
const NAMES: [(pando_code, &CStr); 28] = [
    (PANDO_OK, c"ok"),
    (PANDO_ABSENT, c"absent"),
    (PANDO_FULL, c"full"),
    (PANDO_EXISTS, c"exists"),
    (PANDO_MISSING, c"missing"),
    (PANDO_WOULD_WAIT, c"would-wait"),
    (PANDO_READ_ONLY, c"read-only"),
    (PANDO_IO, c"io"),
    (PANDO_LATCHED, c"latched"),
    (PANDO_INDETERMINATE, c"indeterminate"),
    (PANDO_CLOSED, c"closed"),
    (PANDO_FORKED, c"forked"),
    (PANDO_INTERNAL, c"internal"),
    (PANDO_FAILED, c"failed"),
    (PANDO_TOO_OLD, c"too-old"),
    (PANDO_CONSTRAINT, c"constraint"),
    (PANDO_INTERRUPTED, c"interrupted"),
    (PANDO_FENCED, c"fenced"),
    (PANDO_INVALID, c"invalid"),
    (PANDO_MISMATCH, c"mismatch"),
    (PANDO_MISUSE, c"misuse"),
    (PANDO_IN_USE, c"in-use"),
    (PANDO_TOO_SMALL, c"too-small"),
    (PANDO_CORRUPT, c"corrupt"),
    (PANDO_FOREIGN, c"foreign"),
    (PANDO_LOCKED, c"locked"),
    (PANDO_CONFLICT, c"conflict"),
    (PANDO_SNAPSHOT_TOO_OLD, c"snapshot-too-old"),
];

impl From<Kind> for pando_code {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Misuse => PANDO_MISUSE,
            Kind::InUse => PANDO_IN_USE,
            Kind::TooSmall => PANDO_TOO_SMALL,
            Kind::Internal => PANDO_INTERNAL,
            Kind::Interrupted => PANDO_INTERRUPTED,
            Kind::Constraint => PANDO_CONSTRAINT,
            Kind::Engine(kind) => match kind {
                ErrorKind::Conflict => PANDO_CONFLICT,
                ErrorKind::SnapshotTooOld => PANDO_SNAPSHOT_TOO_OLD,
                ErrorKind::TooOld => PANDO_TOO_OLD,
                ErrorKind::Full => PANDO_FULL,
                ErrorKind::Exists => PANDO_EXISTS,
                ErrorKind::Missing => PANDO_MISSING,
                ErrorKind::WouldWait => PANDO_WOULD_WAIT,
                ErrorKind::Invalid => PANDO_INVALID,
                ErrorKind::Mismatch => PANDO_MISMATCH,
                ErrorKind::Locked => PANDO_LOCKED,
                ErrorKind::ReadOnly => PANDO_READ_ONLY,
                ErrorKind::Foreign => PANDO_FOREIGN,
                ErrorKind::Corruption => PANDO_CORRUPT,
                ErrorKind::Io => PANDO_IO,
                ErrorKind::Latched => PANDO_LATCHED,
                ErrorKind::Indeterminate => PANDO_INDETERMINATE,
                ErrorKind::Closed => PANDO_CLOSED,
                ErrorKind::Forked => PANDO_FORKED,
                ErrorKind::Fenced => PANDO_FENCED,
                _ => PANDO_FAILED,
            },
        }
    }
}

/// Returns the name of a code, for messages, such as "conflict"; "unknown" for a number that is no code. The string
/// lives as long as the program. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn pando_code_name(code: c_int) -> *const c_char {
    let found = NAMES.iter().find(|(known, _)| *known as c_int == code);
    found.map_or(c"unknown", |(_, name)| name).as_ptr()
}

/// Returns whether the same transaction can succeed if it runs again: after PANDO_CONFLICT and
/// PANDO_SNAPSHOT_TOO_OLD. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn pando_code_is_retryable(code: c_int) -> bool {
    [PANDO_CONFLICT, PANDO_SNAPSHOT_TOO_OLD].iter().any(|known| *known as c_int == code)
}

/// Returns the version of the library, such as "0.1.0". The string lives as long as the program. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn pando_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Leaves a choice to the default: of the database for transactions, of Pando for tables.
pub const PANDO_DEFAULT: c_int = 0;

/// Durability: a commit survives a loss of power.
pub const PANDO_SYNC: c_int = 1;
/// Durability: a commit survives a killed process, but not a loss of power.
pub const PANDO_BUFFERED: c_int = 2;
/// Durability: a commit is synced within an interval, and can be lost until then.
pub const PANDO_LAZY: c_int = 3;

/// Isolation: the result is that of some order of the transactions, one after another.
pub const PANDO_SERIALIZABLE: c_int = 1;
/// Isolation: reads see one moment, and only writes conflict.
pub const PANDO_SNAPSHOT_ISOLATION: c_int = 2;

/// Layout: one B+tree, for fast reads and scans. It is the default.
pub const PANDO_BTREE: c_int = 1;
/// Layout: a log-structured merge tree, for writes far larger than memory.
pub const PANDO_LSM: c_int = 2;

/// Compression: none. It is the default.
pub const PANDO_UNCOMPRESSED: c_int = 1;
/// Compression: LZ4, for LSM tables.
pub const PANDO_LZ4: c_int = 2;

/// The durability that `given` chooses.
pub(crate) fn durability(given: c_int, default: Durability) -> Outcome<Durability> {
    match given {
        PANDO_DEFAULT => Ok(default),
        PANDO_SYNC => Ok(Durability::Sync),
        PANDO_BUFFERED => Ok(Durability::Buffered),
        PANDO_LAZY => Ok(Durability::Lazy),
        _ => Err(unknown("durability", given)),
    }
}

/// The isolation that `given` chooses.
pub(crate) fn isolation(given: c_int, default: Isolation) -> Outcome<Isolation> {
    match given {
        PANDO_DEFAULT => Ok(default),
        PANDO_SERIALIZABLE => Ok(Isolation::Serializable),
        PANDO_SNAPSHOT_ISOLATION => Ok(Isolation::Snapshot),
        _ => Err(unknown("isolation", given)),
    }
}

/// The layout that `given` chooses.
pub(crate) fn layout(given: c_int) -> Outcome<Layout> {
    match given {
        PANDO_DEFAULT => Ok(Layout::default()),
        PANDO_BTREE => Ok(Layout::BTree),
        PANDO_LSM => Ok(Layout::Lsm),
        _ => Err(unknown("layout", given)),
    }
}

/// The compression that `given` chooses.
pub(crate) fn compression(given: c_int) -> Outcome<Compression> {
    match given {
        PANDO_DEFAULT => Ok(Compression::default()),
        PANDO_UNCOMPRESSED => Ok(Compression::None),
        PANDO_LZ4 => Ok(Compression::Lz4),
        _ => Err(unknown("compression", given)),
    }
}

#[cold]
pub(crate) fn unknown(what: &str, given: c_int) -> Failure {
    Failure::invalid(format!("{what} is {given}; it must be one of its constants in pando.h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit codes of `crates/cli/src/failure.rs`.
    fn exit_code(kind: ErrorKind) -> c_int {
        match kind {
            ErrorKind::Invalid | ErrorKind::Mismatch => 2,
            ErrorKind::Corruption | ErrorKind::Foreign => 3,
            ErrorKind::Locked => 4,
            ErrorKind::Conflict | ErrorKind::SnapshotTooOld => 5,
            _ => 1,
        }
    }

    #[test]
    fn the_low_byte_is_the_exit_code_of_the_command() {
        let kinds = [
            ErrorKind::Conflict,
            ErrorKind::SnapshotTooOld,
            ErrorKind::TooOld,
            ErrorKind::Full,
            ErrorKind::Exists,
            ErrorKind::Missing,
            ErrorKind::WouldWait,
            ErrorKind::Invalid,
            ErrorKind::Mismatch,
            ErrorKind::Locked,
            ErrorKind::ReadOnly,
            ErrorKind::Foreign,
            ErrorKind::Corruption,
            ErrorKind::Io,
            ErrorKind::Latched,
            ErrorKind::Indeterminate,
            ErrorKind::Closed,
            ErrorKind::Forked,
            ErrorKind::Fenced,
        ];
        let mut codes = Vec::new();
        for kind in kinds {
            let code = pando_code::from(Kind::Engine(kind));
            assert_eq!(code as c_int & 0xff, exit_code(kind), "{kind:?}");
            assert!(!codes.contains(&code), "{code:?} stands for two kinds");
            assert_ne!(code, PANDO_FAILED, "{kind:?}");
            codes.push(code);
        }
    }

    #[test]
    fn no_two_codes_have_a_name_or_a_number_in_common() {
        for (index, (code, name)) in NAMES.iter().enumerate() {
            assert!(NAMES[..index].iter().all(|(other, text)| other != code && text != name), "{name:?}");
        }
    }
}
