//! What an append and a flush cost: `cargo run --release -p pando-db-log --example append_cost -- <directory>`.

use base::{DatabaseId, Result};
use io::OsDir;
use pando_log::{Log, Options};
use std::sync::Arc;
use std::time::Instant;

const PAYLOAD: [u8; 30] = [7; 30];

fn main() -> Result<()> {
    let path = std::env::args().nth(1).expect("the directory to measure in, which must be empty");
    let dir: Arc<dyn io::Dir> = Arc::new(OsDir::create(&path)?);
    let options =
        Options { first_segment_bytes: 256 << 20, max_segment_bytes: 256 << 20, ..Options::default() };
    let log = Log::create(dir.clone(), DatabaseId(1), options)?;
    for round in 1..=3 {
        let start = Instant::now();
        for _ in 0..1_000_000 {
            log.append(&PAYLOAD)?;
        }
        println!("round {round}: {:.1} ns an append of 30 bytes", start.elapsed().as_nanos() as f64 / 1e6);
        let start = Instant::now();
        log.sync(log.end().lsn)?;
        println!("round {round}: {:.1} ms to flush them", start.elapsed().as_secs_f64() * 1e3);
    }
    let start = Instant::now();
    for _ in 0..500 {
        log.sync(log.append(&PAYLOAD)?)?;
    }
    println!("{:.1} us an append with its own flush", start.elapsed().as_micros() as f64 / 500.0);
    let start = Instant::now();
    let from = pando_log::Position { segment: 1, generation: 1, lsn: base::Lsn(0) };
    let tail = Log::scan(&dir, DatabaseId(1), from, &mut |_| Ok(()))?;
    println!("{:.0} ms to scan {} blocks", start.elapsed().as_secs_f64() * 1e3, tail.blocks);
    Log::discard(&dir)
}
