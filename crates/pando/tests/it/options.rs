//! The options: the table, the Builder and `docs/options.md` say the same, and the ranges are those that hold.

use pando::options::{ALL, Origin, Range, Setting, Spec, Unit, Value};
use pando::{Budget, Builder, Database, Durability, ErrorKind, Isolation};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

const BUILDER: &str = include_str!("../../src/builder.rs");
const PAGE: &str = include_str!("../../../../docs/options.md");

/// Methods of the Builder that set what is no value.
const OTHERS: [&str; 3] = ["budget", "clock", "on_long_reader"];

/// The methods that set something, each with its documentation on one line.
fn documented() -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut doc = String::new();
    for line in BUILDER.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            let _ = write!(doc, "{} ", text.trim());
        } else if let Some(name) = line.strip_prefix("pub fn ").and_then(|rest| rest.split_once("(mut self"))
        {
            found.push((name.0, std::mem::take(&mut doc)));
        } else {
            doc.clear();
        }
    }
    found
}

#[test]
fn the_builder_has_each_option_and_documents_it_as_the_table_does() {
    let methods = documented();
    let names: BTreeSet<_> = methods.iter().map(|(name, _)| *name).collect();
    let expected: BTreeSet<_> = ALL.iter().map(|spec| spec.name).chain(OTHERS).collect();
    assert_eq!(names, expected);
    for spec in &ALL {
        let (_, doc) = methods.iter().find(|(name, _)| *name == spec.name).unwrap();
        let text = format!("Default: {}. Range: {}. {}", spec.default, spec.range_text(), spec.cost);
        assert!(doc.contains(&text), "{}: the documentation is\n{doc}\nand lacks\n{text}", spec.name);
    }
}

#[test]
fn the_page_of_options_has_the_table() {
    let mut table =
        String::from("| option | unit | default | range | if it is wrong |\n|---|---|---|---|---|\n");
    let mut group = None;
    for spec in &ALL {
        if group.replace(spec.group) != Some(spec.group) {
            writeln!(table, "| **{}** | | | | |", spec.group).unwrap();
        }
        let Spec { name, unit, default, cost, .. } = spec;
        writeln!(table, "| `{name}` | {unit} | {default} | {} | {cost} |", spec.range_text()).unwrap();
    }
    assert!(PAGE.contains(&table.replace("|  |", "| |")), "docs/options.md should have this table:\n{table}");
}

fn of(settings: &[Setting], name: &str) -> (Value, Origin) {
    let found = settings.iter().find(|setting| setting.spec.name == name).expect("an option of this name");
    (found.value, found.origin)
}

/// A builder with this option at `number`, in its unit.
fn with(name: &str, number: u64) -> Builder {
    let (builder, time) = (Database::builder(), Duration::from_millis(number));
    match name {
        "memory_bytes" => builder.memory_bytes(number as usize),
        "lazy_interval" => builder.lazy_interval(time),
        "max_segment_bytes" => builder.max_segment_bytes(number),
        "checkpoint_bytes" => builder.checkpoint_bytes(number as usize),
        "checkpoint_records" => builder.checkpoint_records(number),
        "max_log_bytes" => builder.max_log_bytes(number),
        "max_log_records" => builder.max_log_records(number),
        "max_snapshot_age" => builder.max_snapshot_age(time),
        "max_pinned_space_bytes" => builder.max_pinned_space_bytes(number),
        "max_changes_bytes" => builder.max_changes_bytes(number),
        "page_bytes" => builder.page_bytes(number as usize),
        _ => panic!("{name} is no option with numbers"),
    }
}

#[test]
fn what_is_out_of_its_range_is_refused_by_name() {
    for spec in ALL.iter().filter(|spec| spec.unit != Unit::Word) {
        let (good, bad) = match spec.range {
            Range::Numbers(least, u64::MAX) => (vec![least, u64::MAX], vec![least - 1]),
            Range::Numbers(least, most) => (vec![least, most], vec![least - 1, most + 1, u64::MAX]),
            Range::Memory(least) => {
                let of_pages = 128 * pando::limits::DEFAULT_PAGE_BYTES as u64;
                (vec![of_pages, usize::MAX as u64], vec![0, least - 1, of_pages - 1])
            }
            Range::OneOf(numbers) => {
                let beside = numbers.iter().flat_map(|number| [number - 1, number + 1, number * 3]);
                (numbers.to_vec(), beside.chain([0, u64::MAX]).collect())
            }
            other => panic!("{other:?} of a number"),
        };
        for number in good {
            let db = with(spec.name, number).in_memory();
            let db = db.unwrap_or_else(|error| panic!("{} = {number}: {error}", spec.name));
            let table = db.ensure_table("t").unwrap();
            db.put(&table, b"k", b"v").unwrap();
            db.checkpoint().unwrap();
            assert_eq!(db.get(&table, b"k").unwrap().as_deref(), Some(&b"v"[..]));
        }
        for number in bad {
            let error = with(spec.name, number).in_memory().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            for part in [spec.name, &number.to_string(), &spec.range_text()] {
                assert!(error.message().contains(part), "{part} is not in: {error}");
            }
        }
    }
}

#[test]
fn memory_must_hold_128_pages() {
    let dir = tempfile::tempdir().unwrap();
    Database::builder().page_bytes(65536).create(dir.path()).unwrap();
    let little = Database::builder().memory_bytes((8 << 20) - 1);
    // Of an existing database the pages are known later.
    for refused in [little.clone().page_bytes(65536).in_memory(), little.open(dir.path())] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("memory_bytes is 8388607"), "{error}");
    }
    Database::builder().memory_bytes(8 << 20).open(dir.path()).unwrap();
}

#[test]
fn defaults_are_what_the_table_says() {
    let settings = Database::builder().settings(None).unwrap();
    assert_eq!(settings.len(), ALL.len());
    let expected = [
        ("durability", Value::Word("sync")),
        ("lazy_interval", Value::Number(200)),
        ("checkpoint_records", Value::Number(4_000_000)),
        ("max_log_bytes", Value::Number(1 << 30)),
        ("max_log_records", Value::Number(16_000_000)),
        ("isolation", Value::Word("serializable")),
        ("max_snapshot_age", Value::Unlimited),
        ("max_pinned_space_bytes", Value::Number(1 << 30)),
        ("page_bytes", Value::Number(16384)),
        ("read_only", Value::Word("no")),
    ];
    for (name, value) in expected {
        assert_eq!(of(&settings, name), (value, Origin::Default), "{name}");
    }
    assert!(matches!(of(&settings, "memory_bytes"), (Value::Number(4_194_304..), Origin::Computed(_))));
}

#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let builder = Database::builder()
        .memory_bytes(64 << 20)
        .durability(Durability::Lazy)
        .lazy_interval(Duration::from_millis(200))
        .isolation(Isolation::Snapshot)
        .max_snapshot_age(Duration::from_secs(2))
        .max_segment_bytes(1 << 30);
    let settings = builder.clone().in_memory().unwrap().settings().unwrap();
    let from_memory = Origin::Computed("memory_bytes");
    let expected = [
        ("memory_bytes", Value::Number(64 << 20), Origin::Given),
        ("durability", Value::Word("lazy"), Origin::Given),
        // As given, though it is the default.
        ("lazy_interval", Value::Number(200), Origin::Given),
        // Asked for more than the memory allows.
        ("max_segment_bytes", Value::Number(4 << 20), from_memory),
        ("checkpoint_bytes", Value::Number(8 << 20), from_memory),
        ("isolation", Value::Word("snapshot"), Origin::Given),
        ("max_snapshot_age", Value::Number(2000), Origin::Given),
        ("max_pinned_space_bytes", Value::Number(1 << 30), Origin::Computed("the data file")),
        ("page_bytes", Value::Number(16384), Origin::Stored),
    ];
    for (name, value, origin) in expected {
        assert_eq!(of(&settings, name), (value, origin), "{name}");
    }
    let capped = builder.clone().max_log_records(1000).settings(None).unwrap();
    let from_log = Origin::Computed("max_log_records");
    assert_eq!(of(&capped, "checkpoint_records"), (Value::Number(250), from_log));
    let shared = Budget::new(32 << 20);
    let settings = builder.budget(&shared).settings(None).unwrap();
    assert_eq!(of(&settings, "memory_bytes"), (Value::Number(32 << 20), Origin::Given));
    assert_eq!(of(&settings, "max_segment_bytes"), (Value::Number(512 << 10), from_memory));
    // Asked for less: what was asked for.
    let little =
        Database::builder().max_segment_bytes(65536).checkpoint_bytes(1 << 20).settings(None).unwrap();
    assert_eq!(of(&little, "max_segment_bytes"), (Value::Number(65536), Origin::Given));
    assert_eq!(of(&little, "checkpoint_bytes"), (Value::Number(1 << 20), Origin::Given));
}
