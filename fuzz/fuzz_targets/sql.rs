//! SQL statements, one on each line: Pando's trees and SQLite's own do the same, and agree with themselves.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use pando_fuzz::sql::{Both, mutate};

fuzz_target!(|text: &str| {
    Both::open().run(text);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let text = std::str::from_utf8(&data[..size]).unwrap_or_default();
    if text.is_empty() || seed % 8 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let new = mutate(text, seed);
    let size = new.floor_char_boundary(max_size.min(data.len()));
    data[..size].copy_from_slice(&new.as_bytes()[..size]);
    size
});
