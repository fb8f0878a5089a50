//! Options by their names, as `docs/options.md` lists them.

use crate::failure::{Failure, Outcome};
use pando::{Builder, Durability, Isolation};
use std::str::FromStr;
use std::time::Duration;

/// Sets the option `name` to `value`: a number in the option's unit, or a word. Its range is checked when the database
/// is opened.
pub fn set(builder: Builder, name: &str, value: &str) -> Outcome<Builder> {
    Ok(match name {
        "memory_bytes" => builder.memory_bytes(number(name, value)?),
        "durability" => builder.durability(durability(value)?),
        "lazy_interval" => builder.lazy_interval(milliseconds(name, value)?),
        "max_segment_bytes" => builder.max_segment_bytes(number(name, value)?),
        "checkpoint_bytes" => builder.checkpoint_bytes(number(name, value)?),
        "checkpoint_records" => builder.checkpoint_records(number(name, value)?),
        "max_log_bytes" => builder.max_log_bytes(number(name, value)?),
        "max_log_records" => builder.max_log_records(number(name, value)?),
        "isolation" => builder.isolation(isolation(value)?),
        "max_snapshot_age" => builder.max_snapshot_age(milliseconds(name, value)?),
        "max_pinned_space_bytes" => builder.max_pinned_space_bytes(number(name, value)?),
        "max_changes_bytes" => builder.max_changes_bytes(number(name, value)?),
        "page_bytes" => builder.page_bytes(number(name, value)?),
        "read_only" => builder.read_only(yes_or_no(value)?),
        _ => return Err(Failure::invalid(format!("there is no option {name:?}"))),
    })
}

/// What commits survive, by its name.
pub fn durability(value: &str) -> Outcome<Durability> {
    match value {
        "sync" => Ok(Durability::Sync),
        "buffered" => Ok(Durability::Buffered),
        "lazy" => Ok(Durability::Lazy),
        _ => Err(unknown("durability", value, "sync, buffered, lazy")),
    }
}

/// What transactions are protected from, by its name.
pub fn isolation(value: &str) -> Outcome<Isolation> {
    match value {
        "serializable" => Ok(Isolation::Serializable),
        "snapshot" => Ok(Isolation::Snapshot),
        _ => Err(unknown("isolation", value, "serializable, snapshot")),
    }
}

fn yes_or_no(value: &str) -> Outcome<bool> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(unknown("read_only", value, "yes, no")),
    }
}

fn milliseconds(name: &str, value: &str) -> Outcome<Duration> {
    number(name, value).map(Duration::from_millis)
}

fn number<T: FromStr>(name: &str, value: &str) -> Outcome<T> {
    let wrong =
        |_| Failure::invalid(format!("option {name} is {value:?}; it must be a whole number from 0 on"));
    value.parse().map_err(wrong)
}

#[cold]
fn unknown(name: &str, value: &str, words: &str) -> Failure {
    Failure::invalid(format!("option {name} is {value:?}; it must be one of {words}"))
}
