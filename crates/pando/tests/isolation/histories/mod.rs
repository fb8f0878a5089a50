//! What the isolation tests share.

pub mod checker;

use pando::{Builder, Database, Durability, Isolation, TransactionOptions};
use std::time::Duration;

pub type Outcome = pando::Result<()>;

pub const BOTH: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

pub fn options(isolation: Isolation, durability: Durability) -> TransactionOptions {
    TransactionOptions { isolation, durability }
}

/// A database that seals after every few dozen records, so that checkpoints never rest.
pub fn restless() -> Builder {
    Database::builder().page_bytes(4096).memory_bytes(16 << 20).checkpoint_records(40)
}

/// How long a stress test runs: `default`, or PANDO_STRESS_SECONDS.
pub fn stress_time(default: Duration) -> Duration {
    let asked = std::env::var("PANDO_STRESS_SECONDS").ok();
    asked.map_or(default, |text| {
        Duration::from_secs_f64(text.parse().expect("PANDO_STRESS_SECONDS is a number"))
    })
}
