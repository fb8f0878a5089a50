//! Going on in another segment before the current one is full: in a short one, where a log was busy once and should be
//! small on the disk again; in one that was written over, where it is flushed often and was not.

use crate::ahead::EARLY_BYTES;
use crate::handle::{Log, spare_of};
use crate::stock::{Room, segment_bytes_for};
use base::Result;
use base::sync::lock;

impl Log {
    /// Goes on in a segment of the first length, if the current one is longer: once a checkpoint covers what lies
    /// before, [`Log::drop_before`] lets go of the long one, and [`Log::drop_spares`] of its file.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn shorten(&self) -> Result<()> {
        let short_bytes = segment_bytes_for(0, self.options.first_segment_bytes);
        // Held to the end: nobody else makes a segment ready, so that nobody else can go on in another one.
        let _making = self.hurry();
        let mut stock = lock(&self.stock);
        let draft = {
            let mut appender = lock(&self.appender);
            if appender.segment.header.len_bytes <= short_bytes {
                return Ok(());
            }
            appender.next.drain(..).for_each(|next| stock.put(spare_of(&next)));
            self.draft_after(&appender.segment.header)
        };
        stock.trim(0)?;
        let ready = stock.ready(draft, short_bytes, Room::Written)?;
        let mut appender = lock(&self.appender);
        if appender.stop.is_some() {
            stock.put(spare_of(&ready));
            return stock.trim(0);
        }
        let stamp = self.stamp();
        let switched = appender.switch(ready, stamp);
        switched.inspect_err(|error| appender.latch(error))
    }

    /// Goes on in a segment that was written over, so that flushes are cheap again; the current one was allocated, and
    /// its file will not be used again. Says whether it did.
    pub(crate) fn go_on_written(&self) -> Result<bool> {
        let bytes = segment_bytes_for(0, EARLY_BYTES.min(self.longest_segment_bytes()));
        // Held to the end, as above; meanwhile appends may go on in a segment that is ready.
        let _making = lock(&self.making);
        let draft = self.draft_after(&lock(&self.appender).segment.header);
        let begun = lock(&self.stock).begin(draft, bytes..=bytes, Room::Written)?;
        let ready = begun.finish(&|_| false)?;
        let mut stock = lock(&self.stock);
        let mut appender = lock(&self.appender);
        if appender.stop.is_some() || appender.segment.header.number != draft.previous {
            stock.put(spare_of(&ready));
            return Ok(false);
        }
        appender.next.drain(..).for_each(|next| stock.put(spare_of(&next)));
        stock.give_up(draft.previous);
        let stamp = self.stamp();
        appender.switch(ready, stamp).inspect_err(|error| appender.latch(error))?;
        Ok(true)
    }

    /// Lets go of what is mapped of a log to which nothing is appended any more: a closed one.
    pub fn unmap(&self) {
        let mut appender = lock(&self.appender);
        if appender.stop.is_some() {
            let maps = (appender.segment.map.take(), appender.ended.take());
            drop(appender);
            drop(maps);
        }
    }

    /// Removes the files that are kept for later segments.
    ///
    /// # Errors
    /// Those of removing a file.
    pub fn drop_spares(&self) -> Result<()> {
        // What is being made is kept for later, too.
        let _making = self.hurry();
        let mut stock = lock(&self.stock);
        lock(&self.appender).next.drain(..).for_each(|next| stock.put(spare_of(&next)));
        stock.trim(0)
    }
}
