//! A transaction that inserts ascending keys beyond its memory, which is a sixteenth of 32 MiB: it spills its writes to
//! some runs, which follow one another.

use super::{Bench, VALUE_BYTES};
use pando::TransactionOptions;
use pando_bench::Outcome;
use pando_bench::settings::Durability;

/// The least number of runs that the transaction has to spill.
const LEAST_SPILLS: u64 = 3;

#[inline(never)]
pub fn append_row(bench: &mut Bench, times: u64) -> Outcome<()> {
    let db = bench.db();
    let (table, before) = (db.ensure_table("appended")?, db.stats()?.spills);
    let options = TransactionOptions { durability: Durability::Buffered.into(), ..db.transaction_options() };
    let mut tx = db.begin_with(&options)?;
    for record in 0..times {
        tx.insert(&table, record.to_be_bytes(), &[5; VALUE_BYTES])?;
    }
    tx.commit()?;
    assert!(db.stats()?.spills >= before + LEAST_SPILLS);
    Ok(())
}
