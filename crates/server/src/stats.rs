//! A database's counts and sizes, by name.

use pando::{DelayCause, Holder, Stats};
use serde_json::{Map, Value};

/// Each count with its name.
fn fields(stats: &Stats) -> Vec<(&'static str, u64)> {
    let held = |holder| stats.memory.held.of(holder) as u64;
    let debt = |cause: DelayCause| stats.pacing.debt_permille[cause as usize];
    let delays = |cause: DelayCause| stats.pacing.delays[cause as usize];
    vec![
        ("page_bytes", stats.page_bytes),
        ("last_commit", stats.last_commit),
        ("commits", stats.commits),
        ("conflicts", stats.conflicts),
        ("gets", stats.gets),
        ("scans", stats.scans),
        ("writes", stats.writes),
        ("checkpoints", stats.checkpoints),
        ("absorbed_records", stats.absorbed_records),
        ("readers", stats.readers),
        ("expired_readers", stats.expired_readers),
        ("memtable_bytes", stats.memtable_bytes),
        ("sealed_memtables", stats.sealed_memtables),
        ("spills", stats.spills),
        ("pool_bytes", stats.pool_bytes),
        ("pool_faults", stats.pool_faults),
        ("pool_evictions", stats.pool_evictions),
        ("log_appends", stats.log_appends),
        ("log_appended_bytes", stats.log_appended_bytes),
        ("log_flushes", stats.log_flushes),
        ("log_file_bytes", stats.log_file_bytes),
        ("data_file_bytes", stats.data_file_bytes),
        ("data_used_bytes", stats.data_used_bytes),
        ("data_retired_bytes", stats.data_retired_bytes),
        ("data_hole_bytes", stats.data_hole_bytes),
        ("memory_limit_bytes", stats.memory.limit_bytes),
        ("memory_used_bytes", stats.memory.used_bytes),
        ("memory_peak_bytes", stats.memory.peak_bytes),
        ("memory_pool_bytes", held(Holder::Pool)),
        ("memory_memtables_bytes", held(Holder::Memtables)),
        ("memory_write_sets_bytes", held(Holder::WriteSets)),
        ("memory_checkpoint_bytes", held(Holder::Checkpoint)),
        ("memory_log_bytes", held(Holder::Log)),
        ("unabsorbed_log_bytes", stats.pacing.unabsorbed_log_bytes),
        ("unabsorbed_records", stats.pacing.unabsorbed_records),
        ("absorbed_bytes_per_s", stats.pacing.absorbed_bytes_per_s),
        ("debt_memtables_permille", debt(DelayCause::Memtables)),
        ("debt_log_permille", debt(DelayCause::Log)),
        ("debt_budget_permille", debt(DelayCause::Budget)),
        ("delays_memtables", delays(DelayCause::Memtables).count),
        ("delays_memtables_ns", delays(DelayCause::Memtables).total_ns),
        ("delays_log", delays(DelayCause::Log).count),
        ("delays_log_ns", delays(DelayCause::Log).total_ns),
        ("delays_budget", delays(DelayCause::Budget).count),
        ("delays_budget_ns", delays(DelayCause::Budget).total_ns),
    ]
}

/// As an object.
pub fn to_json(stats: &Stats) -> Value {
    Value::Object(
        fields(stats).into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
    )
}
