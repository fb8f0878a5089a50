//! A database's counts and sizes, by name.

use pando::{DelayCause, Holder, Stats};
use serde_json::{Map, Value};

/// Each count with its name, and whether it only ever grows.
pub fn fields(stats: &Stats) -> Vec<(&'static str, u64, bool)> {
    let held = |holder| stats.memory.held.of(holder) as u64;
    let debt = |cause: DelayCause| stats.pacing.debt_permille[cause as usize];
    let delays = |cause: DelayCause| stats.pacing.delays[cause as usize];
    let (grows, gauge) = (true, false);
    vec![
        ("page_bytes", stats.page_bytes, gauge),
        ("last_commit", stats.last_commit, grows),
        ("commits", stats.commits, grows),
        ("conflicts", stats.conflicts, grows),
        ("checkpoints", stats.checkpoints, grows),
        ("absorbed_records", stats.absorbed_records, grows),
        ("readers", stats.readers, gauge),
        ("expired_readers", stats.expired_readers, grows),
        ("memtable_bytes", stats.memtable_bytes, gauge),
        ("sealed_memtables", stats.sealed_memtables, gauge),
        ("spills", stats.spills, grows),
        ("pool_bytes", stats.pool_bytes, gauge),
        ("pool_faults", stats.pool_faults, grows),
        ("pool_evictions", stats.pool_evictions, grows),
        ("log_appends", stats.log_appends, grows),
        ("log_appended_bytes", stats.log_appended_bytes, grows),
        ("log_flushes", stats.log_flushes, grows),
        ("log_file_bytes", stats.log_file_bytes, gauge),
        ("data_file_bytes", stats.data_file_bytes, gauge),
        ("data_used_bytes", stats.data_used_bytes, gauge),
        ("data_retired_bytes", stats.data_retired_bytes, gauge),
        ("data_hole_bytes", stats.data_hole_bytes, gauge),
        ("memory_limit_bytes", stats.memory.limit_bytes, gauge),
        ("memory_used_bytes", stats.memory.used_bytes, gauge),
        ("memory_peak_bytes", stats.memory.peak_bytes, gauge),
        ("memory_pool_bytes", held(Holder::Pool), gauge),
        ("memory_memtables_bytes", held(Holder::Memtables), gauge),
        ("memory_write_sets_bytes", held(Holder::WriteSets), gauge),
        ("memory_checkpoint_bytes", held(Holder::Checkpoint), gauge),
        ("memory_log_bytes", held(Holder::Log), gauge),
        ("unabsorbed_log_bytes", stats.pacing.unabsorbed_log_bytes, gauge),
        ("unabsorbed_records", stats.pacing.unabsorbed_records, gauge),
        ("absorbed_bytes_per_s", stats.pacing.absorbed_bytes_per_s, gauge),
        ("debt_memtables_permille", debt(DelayCause::Memtables), gauge),
        ("debt_log_permille", debt(DelayCause::Log), gauge),
        ("debt_budget_permille", debt(DelayCause::Budget), gauge),
        ("delays_memtables", delays(DelayCause::Memtables).count, grows),
        ("delays_memtables_ns", delays(DelayCause::Memtables).total_ns, grows),
        ("delays_log", delays(DelayCause::Log).count, grows),
        ("delays_log_ns", delays(DelayCause::Log).total_ns, grows),
        ("delays_budget", delays(DelayCause::Budget).count, grows),
        ("delays_budget_ns", delays(DelayCause::Budget).total_ns, grows),
    ]
}

/// As an object.
pub fn to_json(stats: &Stats) -> Value {
    Value::Object(
        fields(stats)
            .into_iter()
            .map(|(name, value, _)| (name.to_owned(), value.into()))
            .collect::<Map<_, _>>(),
    )
}
