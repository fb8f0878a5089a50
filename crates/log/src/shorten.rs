//! Giving up long segments: for a log that was busy once and should be small on the disk again.

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

    /// Removes the files that are kept for later segments.
    ///
    /// # Errors
    /// Those of removing a file.
    pub fn drop_spares(&self) -> Result<()> {
        let mut stock = lock(&self.stock);
        lock(&self.appender).next.drain(..).for_each(|next| stock.put(spare_of(&next)));
        stock.trim(0)
    }
}
