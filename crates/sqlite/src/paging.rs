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

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes seeks, of which `is_near` says whether each is in the page of the one before. Returns how many of them
    /// read a page, and how many a single row, which leaves no page.
    fn reads(seeks: u32, is_near: impl Fn(u32) -> bool) -> (u32, u32) {
        let (mut paging, mut has_page) = (Paging::default(), false);
        let (mut pages, mut rows) = (0, 0);
        for at in 0..seeks {
            let is_in_page = has_page && is_near(at);
            paging.note(is_in_page);
            has_page = is_in_page || paging.is_worth_it();
            pages += u32::from(has_page && !is_in_page);
            rows += u32::from(!has_page);
        }
        (pages, rows)
    }

    #[test]
    fn seeks_that_are_seldom_in_a_page_seldom_read_one() {
        let (pages, _) = reads(10_000, |at| at % 5 == 0);
        assert!((5..60).contains(&pages), "each fifth: {pages}");
    }

    #[test]
    fn seeks_that_mostly_are_in_a_page_read_few_rows_singly() {
        let (pages, rows) = reads(10_000, |at| at % 100 > 0);
        assert!((95..110).contains(&pages) && rows < 50, "a page for each hundred: {pages}, {rows}");
        let (pages, rows) = reads(20_000, |at| at > 10_000);
        assert!(pages < 100 && rows < 10_500, "all of the second half: {pages}, {rows}");
    }
}
