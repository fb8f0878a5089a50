//! Reading a lineage's log in order, several segments at once: a request is mostly latency.

use crate::lineage::Lineage;
use crate::segment::Segment;
use base::Result;
use std::collections::VecDeque;

/// How many segments are requested at once, and how many bytes they may have, if none is longer than the longest of
/// those that were requested before.
const MOST: u64 = 32;
const MOST_BYTES: u64 = 16 << 20;

/// Segments that were read and not taken yet.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// The number of the first one.
    next: u64,
    read: VecDeque<Result<Segment>>,
    /// How many are requested next. A log that ends soon is not read far beyond its end.
    most: u64,
    /// The longest body of the segments that were requested last.
    longest: u64,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead { next: 0, read: VecDeque::new(), most: 1, longest: 0 }
    }
}

impl Ahead {
    /// Returns segment `number` of `lineage`, verified; `None` if it does not exist. That is always from a request made
    /// now, while a segment that exists never changes and may have been read before.
    pub fn take(&mut self, lineage: &Lineage, number: u64) -> Result<Option<Segment>> {
        if self.next != number || self.read.is_empty() {
            self.request(lineage, number);
        }
        let Some(segment) = self.read.pop_front() else { return Ok(None) };
        let segment = segment.inspect_err(|_| *self = Ahead::default())?;
        self.next += 1;
        Ok(Some(segment))
    }

    fn request(&mut self, lineage: &Lineage, first: u64) {
        let fit = MOST_BYTES / self.longest.max(1);
        let count = self.most.min(fit).max(1);
        let read = lineage.segments(first, count).into_iter().map_while(Result::transpose);
        (self.next, self.read) = (first, read.collect());
        self.longest = self.read.iter().flatten().map(|segment| segment.body.len() as u64).max().unwrap_or(0);
        self.most = if self.read.len() as u64 == count { (self.most * 2).min(MOST) } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Shipper;
    use crate::options::Options;
    use crate::tests::{faulty::Faulty, model::Model};
    use std::sync::Arc;

    /// A lineage with so many more segments of one commit, and the number of the last one.
    fn lineage_of(store: &Arc<Faulty>, model: &Model, commits: u64) -> (Lineage, u64) {
        let options = Options { sync: true, ..Options::default() };
        let shipper = Shipper::over(Arc::new(model.clone()), store.bucket(), options).unwrap();
        (0..commits).for_each(|time| shipper.wait(model.commit(time, "change")).unwrap());
        shipper.stop().unwrap();
        let lineage = Lineage::expect(&store.bucket()).unwrap();
        let last = lineage.tail().unwrap().expect("it has a log").head.number;
        (lineage, last)
    }

    #[test]
    fn more_are_requested_at_once_while_there_are_more() {
        let (store, model) = (Faulty::new(1), Model::new(1));
        let (lineage, last) = lineage_of(&store, &model, 120);
        assert!(last > 120, "{last}");
        let (mut ahead, mut requests) = (Ahead::default(), Vec::new());
        for number in 1..=last {
            let had = ahead.read.len();
            assert_eq!(ahead.take(&lineage, number).unwrap().unwrap().head.number, number);
            if had == 0 {
                requests.push(ahead.read.len() + 1);
            }
        }
        assert_eq!(requests[..6], [1, 2, 4, 8, 16, 32], "{requests:?}");
        assert!(ahead.take(&lineage, last + 1).unwrap().is_none());
        assert_eq!(ahead.most, 1, "at the end of the log, one request for each look");
    }

    #[test]
    fn what_was_missing_is_asked_for_again() {
        let (store, model) = (Faulty::new(1), Model::new(1));
        let (lineage, last) = lineage_of(&store, &model, 3);
        let mut ahead = Ahead::default();
        (1..=last).for_each(|number| assert!(ahead.take(&lineage, number).unwrap().is_some()));
        assert!(ahead.take(&lineage, last + 1).unwrap().is_none());
        let (lineage, newer) = lineage_of(&store, &model, 3);
        (last + 1..=newer).for_each(|number| assert!(ahead.take(&lineage, number).unwrap().is_some()));
        // Another place in the log.
        assert_eq!(ahead.take(&lineage, 2).unwrap().unwrap().head.number, 2);
    }

    #[test]
    fn a_segment_that_could_not_be_read_is_read_again_before_those_after_it() {
        let (store, model) = (Faulty::new(1), Model::new(1));
        let (lineage, last) = lineage_of(&store, &model, 20);
        let mut ahead = Ahead::default();
        (1..=5).for_each(|number| assert!(ahead.take(&lineage, number).unwrap().is_some()));
        let place = ahead.read.len() - 1;
        ahead.read[place] = Err(base::Error::new(base::ErrorKind::Io, "timed out"));
        let mut failed = 0;
        for number in 6..=last {
            let mut taken = ahead.take(&lineage, number);
            if taken.is_err() {
                failed += 1;
                taken = ahead.take(&lineage, number);
            }
            assert_eq!(taken.unwrap().unwrap().head.number, number);
        }
        assert_eq!(failed, 1);
    }
}
