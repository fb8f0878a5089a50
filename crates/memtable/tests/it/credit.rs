//! The credit that a writer leaves for the writer of the next memtable.

#![cfg(not(loom))]

use base::budget::{Account, Charge, MemoryCategory};
use base::env::Random;
use base::{CommitTs, TableId};
use pando_memtable::Memtable;

const TABLE: TableId = TableId(16);

/// What was reserved anew covers a commit that goes to the next memtable, although this one has room for it.
#[test]
fn what_is_reserved_anew_is_enough_for_the_next_memtable() {
    for seed in 0..60 {
        let mut random = Random::seeded(seed);
        let account = Account::alone(64 << 20);
        let chunk = 4096 << random.below(8);
        let none = Charge::none(&account, MemoryCategory::Memtables);
        let (mut memtable, mut writer) = Memtable::charged(none, chunk);
        for ts in 1..300_u64 {
            let is_anew = random.chance(1, 3);
            let count = if random.chance(1, 12) { 200 } else { 1 + random.below(3) };
            let value = vec![7; (random.below(40_000) / count) as usize];
            let payload = count as usize * (value.len() + 16);
            let is_paid = match is_anew {
                true => writer.reserve_anew(payload, count),
                false => writer.reserve(payload, count),
            };
            assert!(is_paid, "seed {seed}");
            let charged = account.held().total();
            let sealed = memtable.bytes();
            if is_anew && random.chance(3, 4) {
                let credit = writer.take_credit().expect("the memtable has an account");
                let (next, next_writer) = Memtable::charged(credit, chunk);
                (memtable, writer) = (next, next_writer);
                // The sealed one is freed, with its charge.
                assert_eq!(account.held().total(), charged - sealed, "seed {seed}");
            }
            let charged = account.held().total();
            for n in 0..count {
                let key = [ts.to_be_bytes(), n.to_be_bytes()].concat();
                writer.put(TABLE, &key, &value, CommitTs(ts));
            }
            assert_eq!(account.held().total(), charged, "seed {seed}, commit {ts}: charged by force");
        }
    }
}
