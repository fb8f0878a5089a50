//! Every option of a database in one table, and the value of each.
//!
//! [`ALL`] is the one definition of all options, their units, defaults and ranges, and the cost of a wrong value.
//! [`Builder`](crate::Builder) rejects values outside these ranges, `pando options` prints the table, and a test
//! compares the Builder's documentation and `docs/options.md` with it. Options without a value have no row: a
//! [budget](crate::Builder::budget) that databases share replaces `memory_bytes`, and
//! [`on_long_reader`](crate::Builder::on_long_reader) is a function to call.
//!
//! ```
//! # fn main() -> pando::Result<()> {
//! use pando::options::{Origin, Value};
//! let db = pando::Database::builder().memory_bytes(64 << 20).in_memory()?;
//! let settings = db.settings()?;
//! let of = |name| settings.iter().find(|setting| setting.spec.name == name).unwrap();
//! assert_eq!(of("memory_bytes").origin, Origin::Given);
//! assert_eq!(of("checkpoint_bytes").value, Value::Number(8 << 20));
//! assert_eq!(of("checkpoint_bytes").origin, Origin::Computed("memory_bytes"));
//! assert_eq!(of("page_bytes").origin, Origin::Stored);
//! # Ok(())
//! # }
//! ```

mod table;

use std::fmt;

pub use table::ALL;

/// The description of an option.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Spec {
    /// The name of the option, which is also the name of the [`Builder`](crate::Builder)'s method.
    pub name: &'static str,
    pub(crate) id: Id,
    /// The group that the option belongs to.
    pub group: Group,
    /// The unit of the option's numbers.
    pub unit: Unit,
    /// The default, in words.
    pub default: &'static str,
    /// The range of its values.
    pub range: Range,
    /// The cost of a wrong value, in words.
    pub cost: &'static str,
}

/// The options, as code refers to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    MemoryBytes,
    Durability,
    LazyInterval,
    MaxSegmentBytes,
    CheckpointBytes,
    CheckpointRecords,
    MaxLogBytes,
    MaxLogRecords,
    Isolation,
    MaxSnapshotAge,
    MaxPinnedSpaceBytes,
    MaxChangesBytes,
    PageBytes,
    ReadOnly,
}

/// The set of options that were set, whatever their values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given(u32);

impl Given {
    pub fn note(&mut self, id: Id) {
        self.0 |= 1 << id as u32;
    }

    pub fn has(self, id: Id) -> bool {
        self.0 & 1 << id as u32 != 0
    }
}

/// A group of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Group {
    /// The use of memory.
    Memory,
    /// The failures that a commit survives.
    Durability,
    /// The length of the log, and the time that opening takes after a crash.
    Log,
    /// The isolation of transactions, and the limits on what readers keep.
    Readers,
    /// The layout of the files, and how they are opened.
    Storage,
}

/// The unit of an option's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Records.
    Records,
    /// Milliseconds.
    Milliseconds,
    /// No unit: the value is a word.
    Word,
}

/// The values that an option can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Range {
    /// A number from the first through the second, in the option's unit; `u64::MAX` means no limit.
    Numbers(u64, u64),
    /// A number of bytes: at least this many, and at least 128 pages.
    Memory(u64),
    /// One of these numbers.
    OneOf(&'static [u64]),
    /// One of these words.
    Words(&'static [&'static str]),
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number in the option's [`Unit`].
    Number(u64),
    /// One of the words in the option's range.
    Word(&'static str),
    /// No limit.
    Unlimited,
}

/// The origin of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The default, which is the same everywhere.
    Default,
    /// The database, which has stored it since it was created.
    Stored,
    /// The program or the command line.
    Given,
    /// Another option, the machine, or the data, as named here.
    Computed(&'static str),
}

/// An option and its value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// The option.
    pub spec: &'static Spec,
    /// The value of the option: the effective one, if something else limits it.
    pub value: Value,
    /// The origin of the value.
    pub origin: Origin,
}

impl Spec {
    /// Returns the range in words, as in `4 KiB to 1 GiB`.
    pub fn range_text(&self) -> String {
        let amount = |number| amount(number, self.unit);
        match self.range {
            Range::Numbers(least, u64::MAX) => format!("{} and more", amount(least)),
            Range::Numbers(least, most) => format!("{} to {}", amount(least), amount(most)),
            Range::Memory(least) => format!("{} and more, and 128 pages", amount(least)),
            Range::OneOf(numbers) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
            Range::Words(words) => words.join(", "),
        }
    }
}

/// Returns a number with the largest unit that it is a multiple of.
fn amount(number: u64, unit: Unit) -> String {
    let scale: &[(u64, &str)] = match unit {
        Unit::Bytes => &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")],
        Unit::Milliseconds => &[(86_400_000, "days"), (60_000, "minutes"), (1000, "s"), (1, "ms")],
        Unit::Records | Unit::Word => &[],
    };
    match scale.iter().find(|(size, _)| number >= *size && number.is_multiple_of(*size)) {
        Some((size, name)) => format!("{} {name}", number / size),
        None => number.to_string(),
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Group::Memory => "memory",
            Group::Durability => "durability",
            Group::Log => "log and recovery",
            Group::Readers => "isolation and readers",
            Group::Storage => "storage",
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Bytes => "bytes",
            Unit::Records => "records",
            Unit::Milliseconds => "ms",
            Unit::Word => "",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Word(word) => f.write_str(word),
            Value::Unlimited => f.write_str("none"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Stored => f.write_str("stored in the database"),
            Origin::Given => f.write_str("given"),
            Origin::Computed(from) => write!(f, "computed from {from}"),
        }
    }
}
