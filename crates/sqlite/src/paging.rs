//! Whether look-ups of single rows are worth a page.

/// Whether a seek of a rowid reads the page from there on, which costs as much as four look-ups of one row. It pays if
/// almost all later ones are in that page, and is tried now and then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paging {
    /// How much better than needed the last seeks have found what they sought in the page of the one before.
    credit: u32,
    /// How many others have been since the last attempt, and how many there are between two attempts.
    since: u32,
    between: u32,
}

impl Paging {
    const MOST_CREDIT: u32 = 32;
    /// A seek that is not in the page costs as much as this many have saved.
    const MISS: u32 = 6;
    const LEAST_BETWEEN: u32 = 16;
    const MOST_BETWEEN: u32 = 256;

    pub(crate) fn note(&mut self, is_in_page: bool) {
        if is_in_page {
            self.credit = (self.credit + 1).min(Self::MOST_CREDIT);
            // Of random rowids, a few are in the same page.
            if self.credit > Self::MISS {
                self.between = Self::LEAST_BETWEEN;
            }
        } else {
            self.credit = self.credit.saturating_sub(Self::MISS);
            self.since += 1;
        }
    }

    pub(crate) fn is_worth_it(&mut self) -> bool {
        if self.credit > 0 {
            return true;
        }
        let tries = self.since > self.between.max(Self::LEAST_BETWEEN);
        if tries {
            self.between = (2 * self.between).clamp(Self::LEAST_BETWEEN, Self::MOST_BETWEEN);
            self.since = 0;
        }
        tries
    }
}
