//! Cutting off the front of a run: records before a key are removed, the rest stays.
//!
//! On the path to the key, each page loses the entries before it and is written anew. The pages below those entries are
//! retired, leaves without being read. Underfull pages on the path are not repaired: they are cut again soon, or
//! retired. Large values are not touched: the caller has transferred them to another run.
//!
//! Cost: a page a level written, and the inner pages that are dropped.

use crate::descriptor::{Run, expect_leaf, expect_level};
use crate::drop::{Dropped, retire_subtree};
use crate::write_context::WriteContext;
use base::sync::lock;
use base::{PagePtr, Result};
use page::{EditCounters, PageMut};

impl Run {
    /// Returns the part of the run at or after `key`. Records and bytes are estimates from then on. Its large values
    /// stay where they are, including those of removed records.
    ///
    /// Errors: those of reading, allocating and writing.
    pub fn cut(self, context: WriteContext<'_>, key: &[u8]) -> Result<Run> {
        Cut { context, run: self }.front(key)
    }
}

struct Cut<'a> {
    context: WriteContext<'a>,
    run: Run,
}

impl Cut<'_> {
    fn front(&self, key: &[u8]) -> Result<Run> {
        let run = self.run;
        let Some((root, level)) = run.top() else { return Ok(run) };
        let mut dropped = Dropped::default();
        let mut rest = Run { root: self.subtree(root, level, key, &mut dropped)?, ..run };
        if rest.root.is_none() {
            return Ok(Run::EMPTY);
        }
        let kept = |of: u64| {
            let share = u128::from(of) * u128::from(dropped.leaves) / u128::from(run.leaves.max(1));
            of.saturating_sub(share as u64).max(1)
        };
        (rest.records, rest.bytes) = (kept(run.records), kept(run.bytes));
        rest.leaves = run.leaves.saturating_sub(dropped.leaves);
        rest.saved_units = run.saved_units.saturating_sub(dropped.saved_units);
        self.lower(rest)
    }

    /// Returns the rest of the subtree at `ptr`, or `None` if nothing is left.
    fn subtree(&self, ptr: PagePtr, level: u8, key: &[u8], dropped: &mut Dropped) -> Result<Option<PagePtr>> {
        let WriteContext { pool, reader, space, birth } = self.context;
        let pin = pool.pin(reader, ptr)?;
        let page = pin.page();
        match level {
            0 => expect_leaf(page, ptr, self.run.deletes)?,
            _ => expect_level(page, ptr, level)?,
        }
        let mut bytes = page.bytes().to_vec();
        let mut rest = PageMut::edit(&mut bytes);
        let counters = &mut EditCounters::default();
        let gone = if level == 0 {
            page.search(key).unwrap_or_else(|at| at)
        } else {
            let on_way = page.child_for(key);
            for at in 0..on_way {
                let child = page.child(at);
                *dropped +=
                    retire_subtree(pool, reader, space, &self.context.lived(), child, level - 1, false)?;
            }
            match self.subtree(page.child(on_way), level - 1, key, dropped)? {
                Some(child) if child == page.child(on_way) && on_way == 0 => return Ok(Some(ptr)),
                Some(child) => {
                    rest.set_child(on_way, child);
                    on_way
                }
                None => on_way + 1,
            }
        };
        if level == 0 && gone == 0 {
            // The page stays as it is: no entry of it was before the key.
            return Ok(Some(ptr));
        }
        for at in (0..gone).rev() {
            rest.remove(at, counters);
        }
        lock(space).retire(ptr, birth)?;
        let is_empty = rest.as_page().count() == 0;
        if level == 0 {
            // The rest of a compressed leaf is written uncompressed.
            let leaf = Dropped::leaf(ptr, pool.page_bytes());
            *dropped += Dropped { leaves: u64::from(is_empty), ..leaf };
        }
        if is_empty {
            return Ok(None);
        }
        drop(pin);
        self.context.write_page(&mut bytes).map(Some)
    }

    /// Removes roots with one child.
    fn lower(&self, mut run: Run) -> Result<Run> {
        while let Some((root, level)) = run.top().filter(|(_, level)| *level > 0) {
            let pin = self.context.pool.pin(self.context.reader, root)?;
            expect_level(pin.page(), root, level)?;
            if pin.page().count() > 1 {
                break;
            }
            run = Run { root: Some(pin.page().child(0)), height: run.height - 1, ..run };
            lock(self.context.space).retire(root, self.context.birth)?;
        }
        Ok(run)
    }
}
