//! Checks of readers: which are open, and which have kept too much for too long.

use super::{Census, MAX_NOTICES, NOTICED_AGE_MS, OpenReader, ReaderId, default_space_bytes};
use crate::state::store::Store;
use crate::state::view::holdings;
use base::limits::UNIT_BYTES;
use base::slots::{Announced, Holding, Particulars};
use base::sync::lock;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Store {
    /// Sets the time, as the time since a fixed moment. Ages of readers are measured by it.
    pub fn tick(&self, now: Duration) {
        // Relaxed: it orders nothing.
        self.expiry.clock_ms.fetch_max(now.as_millis() as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.expiry.now_ms()
    }

    /// Frees what ended and expired readers kept, unless a checkpoint is in progress, which does it at its end. Returns
    /// whether [`Store::reclaim`] should follow soon, because units of the data file became free.
    pub fn look_after_readers(&self) -> bool {
        // The thread that holds the lock checks the readers itself, and returns the units.
        let Some(_checkpoint) = self.checkpoints.try_claim() else { return false };
        if !self.is_closed() {
            self.free_unneeded();
        }
        lock(&self.space).has_released()
    }

    /// Returns the open snapshots and transactions, the oldest first. Expired ones that are not in a call are left out,
    /// because they keep nothing. It waits at most for a checkpoint's current step.
    pub fn readers(&self) -> base::Result<Vec<OpenReader>> {
        self.check_open()?;
        let census = self.census();
        let held = self.slots.announced().filter_map(|announced| match announced {
            Announced::Held(holding) => Some(holding),
            // The reader is just beginning.
            Announced::Pending => None,
        });
        let known = |holding: Holding| Some((self.slots.particulars(&holding)?, holding));
        let mut readers: Vec<_> = held
            .filter_map(known)
            .map(|(particulars, holding)| self.describe_reader(&census, &holding, &particulars))
            .collect();
        readers.sort_by(|a, b| b.age.cmp(&a.age).then(a.view.cmp(&b.view)));
        Ok(readers)
    }

    /// Returns the readers that expired, keep much, or are old. Each is reported once, and once more if it expires
    /// later.
    pub fn take_notices(&self) -> Vec<OpenReader> {
        std::mem::take(&mut lock(&self.expiry.noticed).notices)
    }

    /// Lets a reader expire: its next call fails, and what only it kept is freed, once it is in no call. Returns
    /// `false` if there is no such reader, or if it expired before. O(open readers).
    ///
    /// # Errors
    /// [`Closed`](base::ErrorKind::Closed).
    pub fn expire_reader(&self, id: ReaderId) -> base::Result<bool> {
        self.check_open()?;
        let found = self.slots.announced().find_map(|announced| match announced {
            Announced::Held(holding) if ReaderId::of(&holding) == id && !holding.is_revoked => Some(holding),
            _ => None,
        });
        // The word of the slot is exchanged as a whole, so a younger reader of the same slot is not affected.
        let is_expired = found.is_some_and(|holding| self.slots.revoke(&holding));
        if is_expired {
            self.expiry.expired.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally.
            // The next look at the readers finds what this one has freed.
            let _ = self.look_after_readers();
        }
        Ok(is_expired)
    }

    fn census(&self) -> Census {
        let space = lock(&self.space);
        let committer = lock(&self.committer);
        self.views.with_kept(|views| Census::take(views, &committer.history, &space))
    }

    fn describe_reader(&self, census: &Census, holding: &Holding, known: &Particulars) -> OpenReader {
        OpenReader {
            id: ReaderId::of(holding),
            is_transaction: holding.writes,
            age: Duration::from_millis(self.now_ms().saturating_sub(known.since_ms)),
            commit: known.ts,
            view: holding.view,
            opened_at: known.opened_at,
            memory_bytes: census.memory_bytes(holding),
            space_bytes: census.space_bytes(holding),
            in_call: known.in_call,
            expired: holding.is_revoked,
        }
    }

    /// Revokes the views of all readers except those of the newest view, because what they see may be freed.
    pub(crate) fn expire_older_views(&self) {
        let newest = self.views.with_current(|view| view.number);
        let held = self.slots.announced().filter_map(|announced| match announced {
            Announced::Held(holding) => Some(holding),
            Announced::Pending => None,
        });
        for holding in held.filter(|holding| holding.view < newest && !holding.is_revoked) {
            if self.slots.revoke(&holding) {
                self.expiry.expired.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally.
            }
        }
    }

    /// Revokes the views of readers that exceed a bound. If a reader is just beginning, none is revoked until the next
    /// call.
    pub(crate) fn expire_readers(&self) -> bool {
        let Some(held) = holdings(&self.slots) else { return false };
        if held.is_empty() {
            lock(&self.expiry.noticed).readers.clear();
            return false;
        }
        let census = self.census();
        let expiry = &self.expiry;
        let in_use = || lock(&self.space).used_units() * UNIT_BYTES as u64;
        let space_bytes = expiry.space_bytes.unwrap_or_else(|| default_space_bytes(in_use()));
        let memory_bytes = expiry.memory_bytes as u64;
        let cut = census.cut(&held, memory_bytes, space_bytes);
        let mut has_expired = false;
        let mut noticed = lock(&expiry.noticed);
        let living: BTreeSet<_> = held.iter().map(Holding::id).collect();
        noticed.readers.retain(|id| living.contains(id));
        for holding in held.iter().filter(|holding| !holding.is_revoked) {
            let Some(known) = self.slots.particulars(holding) else { continue };
            let mut reader = self.describe_reader(&census, holding, &known);
            let age_ms = reader.age.as_millis() as u64;
            let is_past = holding.view <= cut || expiry.max_age_ms.is_some_and(|most| age_ms > most);
            reader.expired = is_past && self.slots.revoke(holding);
            has_expired |= reader.expired;
            if reader.expired {
                expiry.expired.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally.
            }
            let is_notable = age_ms > expiry.max_age_ms.map_or(NOTICED_AGE_MS, |most| most / 2)
                || reader.memory_bytes > memory_bytes / 2
                || reader.space_bytes > space_bytes / 2;
            let is_news = reader.expired || (is_notable && noticed.readers.insert(holding.id()));
            if is_news && noticed.notices.len() < MAX_NOTICES {
                noticed.notices.push(reader);
            }
        }
        has_expired
    }
}
