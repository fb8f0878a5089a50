//! Moving to another segment before the current one is full: to a short one when a log was busy and should be small on
//! the disk again, and to an overwritten one when the log is flushed often and the current one was only allocated.

use crate::ahead::EARLY_BYTES;
use crate::handle::{Log, spare_of};
use crate::stock::{Room, segment_bytes_for};
use base::Result;
use base::sync::{MutexGuard, lock};

impl Log {
    /// Moves to a segment of the first length, if the current one is longer. Once a checkpoint covers the earlier
    /// blocks, [`Log::drop_before`] drops the long segment, and [`Log::drop_spares`] removes its file.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn shorten(&self) -> Result<()> {
        let short_bytes = segment_bytes_for(0, self.options.first_segment_bytes);
        // Held to the end, so that no other thread makes a segment ready or continues in another one.
        let _making = self.hurry();
        let mut stock = lock(&self.stock);
        let draft = {
            let mut appender = lock(&self.appender);
            if appender.segment.header.len_bytes <= short_bytes {
                return Ok(());
            }
            appender.next.drain(..).for_each(|next| stock.put(spare_of(&next)));
            // What made segments grow is over.
            appender.is_in_need = false;
            self.draft_after(&appender.segment.header)
        };
        stock.trim(0)?;
        let ready = stock.ready(draft, short_bytes, short_bytes, Room::Written)?;
        let mut appender = lock(&self.appender);
        if appender.stop.is_some() {
            stock.put(spare_of(&ready));
            return stock.trim(0);
        }
        self.forget_room();
        let stamp = self.stamp();
        let switched = appender.switch(ready, stamp);
        switched.inspect_err(|error| appender.latch(error))
    }

    /// Moves to a segment that was overwritten, so that flushes are cheap again. The current one was allocated, and its
    /// file will not be reused. Returns whether it moved.
    ///
    /// `_making` is the lock of `making`, held as above. Meanwhile appends may continue in a segment that is ready.
    pub(crate) fn go_on_written(&self, _making: &MutexGuard<'_, ()>) -> Result<bool> {
        let bytes = segment_bytes_for(0, EARLY_BYTES.min(self.longest_segment_bytes()));
        let draft = self.draft_after(&lock(&self.appender).segment.header);
        let most_bytes = self.longest_spare_bytes();
        let begun = lock(&self.stock).begin(draft, bytes..=bytes, most_bytes, Room::Written)?;
        let ready = begun.finish(&|_| false)?;
        let mut stock = lock(&self.stock);
        let mut appender = lock(&self.appender);
        if appender.stop.is_some() || appender.segment.header.number != draft.previous {
            stock.put(spare_of(&ready));
            return Ok(false);
        }
        appender.next.drain(..).for_each(|next| stock.put(spare_of(&next)));
        stock.give_up(draft.previous);
        self.forget_room();
        let stamp = self.stamp();
        appender.switch(ready, stamp).inspect_err(|error| appender.latch(error))?;
        Ok(true)
    }

    /// Unmaps the segments of a closed log, to which nothing is appended.
    pub fn unmap(&self) {
        let mut appender = lock(&self.appender);
        if appender.stop.is_some() {
            let maps = (appender.segment.map.take(), appender.ended.take());
            drop(appender);
            drop(maps);
        }
    }

    /// Removes the files that are kept for reuse.
    ///
    /// # Errors
    /// The errors of removing a file.
    pub fn drop_spares(&self) -> Result<()> {
        // A segment that is being made is kept for reuse, too.
        let _making = self.hurry();
        let mut stock = lock(&self.stock);
        lock(&self.appender).next.drain(..).for_each(|next| stock.put(spare_of(&next)));
        stock.trim(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use base::DatabaseId;
    use base::sync::atomic::Ordering;
    use io::MemDir;
    use std::sync::Arc;

    #[test]
    fn the_room_of_the_segment_before_is_forgotten() {
        let options = Options { first_segment_bytes: 4 << 10, ..Options::default() };
        let log = Log::create(Arc::new(MemDir::new()), DatabaseId(1), options).unwrap();
        let room_bytes = || log.room_bytes.load(Ordering::Relaxed);
        for _ in 0..8 {
            log.append(&[1; 900]).unwrap();
        }
        assert!(room_bytes() > 0);
        assert!(log.go_on_written(&lock(&log.making)).unwrap());
        assert_eq!(room_bytes(), 0);
        log.append(&[1; 900]).unwrap();
        assert!(room_bytes() > 0);
        log.shorten().unwrap();
        assert_eq!(room_bytes(), 0);
    }
}
