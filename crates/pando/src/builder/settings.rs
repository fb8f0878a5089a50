//! The value of each option, and the check of its range.

use super::Builder;
use crate::options::{ALL, Id, Origin, Range, Setting, Spec, Value};
use base::{Error, Result};
use std::time::Duration;
use store::stats::Stats;
use txn::{Durability, Isolation};

/// Rejects an option that is out of its range.
pub(crate) fn check(builder: &Builder) -> Result<()> {
    ALL.iter().filter(|spec| builder.given.has(spec.id)).try_for_each(|spec| check_one(builder, spec))
}

fn check_one(builder: &Builder, spec: &Spec) -> Result<()> {
    let set = builder.asked(spec.id);
    let fits = match (spec.range, set) {
        (Range::Numbers(least, most), Value::Number(number)) => (least..=most).contains(&number),
        (Range::Memory(least), Value::Number(number)) => {
            let page_bytes = builder.options.page_bytes_or_default();
            number >= least.max(store::memory::least_budget_bytes(page_bytes) as u64)
        }
        (Range::OneOf(numbers), Value::Number(number)) => numbers.contains(&number),
        // The type has only the values in the range.
        _ => true,
    };
    if fits {
        return Ok(());
    }
    let Spec { name, unit, .. } = spec;
    let range = spec.range_text();
    Err(Error::invalid(format!("option {name} is {set} {unit}, which is out of its range: {range}")))
}

impl Builder {
    /// Returns the value of each option; `stats` are those of the open database, if there is one.
    pub(crate) fn settings_with(&self, stats: Option<&Stats>) -> Vec<Setting> {
        let setting = |spec: &'static Spec| {
            let (value, origin) = self.setting(spec.id, stats);
            Setting { spec, value, origin }
        };
        ALL.iter().map(setting).collect()
    }

    fn setting(&self, id: Id, stats: Option<&Stats>) -> (Value, Origin) {
        let options = &self.options;
        let asked = self.asked(id);
        let otherwise = |origin| if self.given.has(id) { Origin::Given } else { origin };
        match id {
            Id::MemoryBytes => match &options.budget {
                Some(budget) => (Value::Number(budget.limit_bytes() as u64), Origin::Given),
                None => (asked, otherwise(Origin::Computed(self.memory_from))),
            },
            Id::MaxSegmentBytes => {
                let in_force = Value::Number(options.log_map_bytes());
                let limited = in_force != asked;
                (
                    in_force,
                    if limited { Origin::Computed("memory_bytes") } else { otherwise(Origin::Default) },
                )
            }
            Id::CheckpointBytes => {
                let in_force = Value::Number(options.shares().seal_bytes as u64);
                (in_force, otherwise(Origin::Computed("memory_bytes")))
            }
            Id::CheckpointRecords if options.seal_records > options.max_log_records / 4 => {
                (Value::Number(options.max_log_records / 4), Origin::Computed("max_log_records"))
            }
            Id::MaxPinnedSpaceBytes if asked == Value::Unlimited => match stats {
                Some(stats) => {
                    let in_force = store::expiry::default_space_bytes(stats.data_used_bytes);
                    (Value::Number(in_force), Origin::Computed("the data file"))
                }
                None => (Value::Number(store::expiry::default_space_bytes(0)), Origin::Default),
            },
            Id::PageBytes => match stats {
                Some(stats) => (Value::Number(stats.page_bytes), Origin::Stored),
                None => (asked, otherwise(Origin::Default)),
            },
            _ => (asked, otherwise(Origin::Default)),
        }
    }

    /// Returns the value that was set or the default, without the limits of other options.
    fn asked(&self, id: Id) -> Value {
        let options = &self.options;
        let or_unlimited = |number: Option<u64>| number.map_or(Value::Unlimited, Value::Number);
        match id {
            Id::MemoryBytes => Value::Number(options.memory_bytes as u64),
            Id::Durability => Value::Word(match self.transactions.durability {
                Durability::Sync => "sync",
                Durability::Buffered => "buffered",
                Durability::Lazy => "lazy",
            }),
            Id::LazyInterval => Value::Number(whole_ms(self.lazy_interval)),
            Id::MaxSegmentBytes => Value::Number(options.max_segment_bytes),
            Id::CheckpointBytes => or_unlimited(options.seal_bytes.map(|bytes| bytes as u64)),
            Id::CheckpointRecords => Value::Number(options.seal_records),
            Id::MaxLogBytes => Value::Number(options.max_log_bytes),
            Id::MaxLogRecords => Value::Number(options.max_log_records),
            Id::Isolation => Value::Word(match self.transactions.isolation {
                Isolation::Serializable => "serializable",
                Isolation::Snapshot => "snapshot",
            }),
            Id::MaxSnapshotAge => or_unlimited(options.max_snapshot_age.map(whole_ms)),
            Id::MaxPinnedSpaceBytes => or_unlimited(options.max_pinned_space_bytes),
            Id::MaxChangesBytes => Value::Number(options.max_changes_bytes),
            Id::PageBytes => Value::Number(options.page_bytes_or_default() as u64),
            Id::ReadOnly => Value::Word(if options.read_only { "yes" } else { "no" }),
        }
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
