//! What the system is asked to do with the mappings that blocks are stored into.

use crate::common::*;
use io::{Dir, OsDir};
use pando_log::{Log, Options};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Of each mapping of a file in `dir`, whether it is said to be read at random.
fn are_random(dir: &Path) -> Vec<bool> {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found = Vec::new();
    let mut is_here = false;
    for line in maps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            found.extend(is_here.then(|| flags.split_whitespace().any(|flag| flag == "rr")));
        } else if line.split(' ').next().is_some_and(|range| range.contains('-')) {
            is_here = line.contains(dir.to_str().unwrap());
        }
    }
    found
}

#[test]
fn only_into_allocated_segments_stores_read_nothing_ahead() {
    for (flush_worth_bytes, is_allocated) in [(0, true), (u64::MAX, false)] {
        let dir = tempfile::tempdir().unwrap();
        let os: Arc<dyn Dir> = Arc::new(OsDir::open(dir.path()).unwrap());
        let log = Log::create(os, DATABASE, Options { flush_worth_bytes, ..SMALL }).unwrap();
        log.append(&payload(1, 3000)).unwrap();
        assert!(log.prepare_next().unwrap());
        let mut found = are_random(dir.path());
        found.sort();
        // The first one of a log is written over always. Some file systems' files are not mapped.
        assert!(found.is_empty() || found == [false, is_allocated], "{flush_worth_bytes}: {found:?}");
    }
}
