//! The log's commits, as far as they can be read in order.

use super::report::{Report, number};
use crate::commit::apply::apply_record;
use crate::open::recovery::DATA;
use crate::state::attach::Attached;
use crate::state::closing::known_durable;
use crate::state::superblock::Superblock;
use base::budget::Account;
use base::limits::TIMESTAMP_LIMIT;
use base::op::{Decoder, Op};
use base::slots::{Reader, Slots};
use base::{CommitTs, DatabaseId, Error, Lsn, Result};
use io::Dir;
use log::{Block, Log, Position};
use memtable::{Memtable, Writer};
use page::Value;
use pool::Pool;
use run::{Merge, Ranges};
use std::sync::Arc;

/// The contents of the log.
#[derive(Debug)]
pub struct Replayed {
    /// All changes in the log.
    pub memtable: Arc<Memtable>,
}

struct Replay {
    writer: Writer,
    last: CommitTs,
    commits: u64,
    /// The pages of attached runs. `None` if the page size is not known.
    pages: Option<(Pool, Reader)>,
}

impl Replay {
    /// Applies what `record` attaches, as puts and deletes at one timestamp; keys that the rest of the record deletes
    /// by range are left out. It applies only what can be read completely.
    fn attached(&mut self, record: &[u8], ts: CommitTs) -> Result<()> {
        let Some((pool, reader)) = &self.pages else {
            return Err(Error::corruption(format!(
                "commit {} has runs in a data file that cannot be read",
                ts.0
            )));
        };
        let Some(attached) = Attached::recover(record, pool, reader)? else { return Ok(()) };
        for table in attached.tables() {
            let deltas = attached.runs(table);
            for delta in deltas {
                delta.records.check(pool, &mut |_| Ok(()))?;
            }
            let own = Decoder::begin(record).into_iter().flatten().filter(|(of, _)| *of == table);
            let own = Ranges::union(own.filter_map(|(_, op)| match op {
                Op::DeleteRange { start, end } => Some((start, end)),
                _ => None,
            }))?;
            for (start, end) in deltas.iter().flat_map(|delta| delta.ranges.iter()) {
                self.writer.apply(ts, table, Op::DeleteRange { start, end });
            }
            let mut merge = Merge::open(deltas, pool, reader)?;
            while merge.next(&mut |_| Ok(()))? {
                let (key, value) = merge.entry().expect("the merge is on a record");
                if own.covering(key).is_none() {
                    let op = match value {
                        Value::Inline(value) => Op::Put { key, value },
                        Value::Large(large) => Op::PutLarge { key, large },
                        Value::Deleted => Op::Delete { key },
                    };
                    self.writer.apply(ts, table, op);
                }
            }
        }
        Ok(())
    }

    /// Applies a block's commit; `follows` checks that it may come after the last one.
    fn block(&mut self, block: &Block<'_>, follows: fn(CommitTs, CommitTs) -> bool) -> Result<()> {
        let record = block.payload;
        let Some(decoder) = base::op::Decoder::begin(record) else {
            return if record.is_empty() {
                Ok(())
            } else {
                Err(Error::corruption("the log block holds no commit record"))
            };
        };
        let ts = decoder.ts();
        if !follows(self.last, ts) || ts.0 >= TIMESTAMP_LIMIT {
            return Err(Error::corruption(format!("commit {} follows commit {}", ts.0, self.last.0)));
        }
        // It is decoded once before, so that nothing of a damaged record is applied.
        let mut whole = decoder;
        let mut attaches = false;
        whole.by_ref().for_each(|(_, op)| attaches |= matches!(op, Op::Attach { .. }));
        if whole.finish().is_none_or(|rest| !rest.is_empty()) {
            return Err(Error::corruption(format!("the record of commit {} cannot be decoded", ts.0)));
        }
        if attaches {
            self.attached(record, ts)?;
        }
        apply_record(record, &mut self.writer)?;
        (self.last, self.commits) = (ts, self.commits + 1);
        Ok(())
    }
}

/// The memory for the pages of attached runs, each of which is needed once.
const POOL_BYTES: usize = 1 << 20;

fn pages(dir: &Arc<dyn Dir>, superblock: &Superblock) -> Option<(Pool, Reader)> {
    let (slots, budget) = (Arc::new(Slots::new()), Account::alone(2 * POOL_BYTES));
    let Superblock { database, page_bytes, .. } = *superblock;
    let pool = Pool::new(dir.open(DATA).ok()?, database, page_bytes, budget, POOL_BYTES, Arc::clone(&slots));
    Some((pool, slots.claim()?))
}

/// Returns the commits after those of `superblock`, up to the first that cannot be read.
pub fn after(dir: &Arc<dyn Dir>, superblock: &Superblock, report: &mut Report) -> Replayed {
    let (memtable, writer) = Memtable::new();
    let pages = pages(dir, superblock);
    let mut replay = Replay { writer, last: superblock.absorbed, commits: 0, pages };
    let follows = |last: CommitTs, next: CommitTs| next.0 == last.0 + 1;
    // If the data file is not readable, the superblock's own statement counts.
    let durable = dir.open_to_read(DATA).and_then(|data| known_durable(&*data, superblock));
    let durable = durable.unwrap_or(superblock.log_synced);
    let scanned = Log::scan_mixed(dir, superblock.database, superblock.replay_from, &mut |block| {
        replay.block(&block, follows)
    });
    match scanned {
        Ok(tail) if tail.end.lsn < durable => {
            let end = tail.end.lsn;
            report.log_stopped =
                Some(format!("the log ends at LSN {end}, but was durable through {durable}"));
        }
        Ok(tail) => report.is_outdated = tail.newest_checkpoint > superblock.checkpoint,
        Err(error) => {
            report.log_stopped = Some(error.to_string());
            report.is_outdated = true;
        }
    }
    report.log_commits = replay.commits;
    report.commit = Some(number(replay.last));
    Replayed { memtable }
}

/// Returns all commits that any segment holds, in their order, whatever is missing between them.
pub fn all(dir: &Arc<dyn Dir>, database: DatabaseId, report: &mut Report) -> Replayed {
    let (memtable, writer) = Memtable::new();
    let mut replay = Replay { writer, last: CommitTs(0), commits: 0, pages: None };
    let segments = Log::segments(dir).unwrap_or_default();
    let mut behind = Lsn(0);
    let mut begins: Vec<Position> =
        segments.into_iter().filter(|(whose, _)| *whose == database).map(|(_, begin)| begin).collect();
    begins.sort_unstable_by_key(|begin| begin.lsn);
    for begin in begins {
        if begin.lsn < behind {
            continue;
        }
        let scanned = Log::scan_mixed(dir, database, begin, &mut |block| {
            behind = block.end.lsn;
            // Commits that an earlier segment's chain has shown already are skipped.
            match base::op::Decoder::begin(block.payload) {
                Some(decoder) if decoder.ts() <= replay.last => Ok(()),
                _ => replay.block(&block, |last, next| next > last),
            }
        });
        if let Err(error) = scanned {
            report.log_stopped.get_or_insert_with(|| error.to_string());
        }
    }
    report.log_commits = replay.commits;
    Replayed { memtable }
}
