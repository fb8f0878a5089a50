//! Many records at once: point 7 of the [cursor](super).

use super::{At, Merged};
use crate::read::merge::{Layer, Shortcuts};
use run::LeafRun;

impl<U: Layer, L: Layer, S: Shortcuts> Merged<U, L, S> {
    /// Moves over many entries of one layer in the direction of the last step, `most` or fewer, and passes them to
    /// `each`. Returns their number. It moves where [`Merged::step_in_leaf`] would, and within an upper layer. For
    /// `each` see [`Layer::run`], for `stop` see [`Merged::next`].
    #[inline]
    pub fn run<const FORWARD: bool>(
        &mut self,
        most: u32,
        stop: Option<&[u8]>,
        each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> u32 {
        match self.at {
            _ if self.forward != FORWARD => 0,
            At::Lower if self.clear > 0 => {
                let shown = self.lower.run::<FORWARD>(None, most.min(self.clear), each);
                self.clear -= shown;
                shown
            }
            At::Front { tied: false } => self.run_front::<FORWARD>(most, stop, each),
            _ => 0,
        }
    }

    /// Moves the front within its layer.
    #[inline(never)]
    fn run_front<const FORWARD: bool>(
        &mut self,
        most: u32,
        stop: Option<&[u8]>,
        each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> u32 {
        self.front_and_limit::<FORWARD>(stop)
            .map_or(0, |(layer, limit)| layer.run::<FORWARD>(limit, most, each))
    }

    /// Returns the front's layer, and the key up to which it may move by itself: the first key of any other layer, or
    /// `stop`. Returns `None` if it may not move by itself.
    fn front_and_limit<'a, const FORWARD: bool>(
        &'a mut self,
        stop: Option<&'a [u8]>,
    ) -> Option<(&'a mut U, Option<&'a [u8]>)> {
        let front = self.front?;
        if self.has_ranges || self.may_expire || !front.layers.is_power_of_two() {
            return None;
        }
        let (newer, from_front) = self.uppers.split_at_mut(front.layer);
        let (layer, older) = from_front.split_first_mut().expect("the front is a layer");
        let others = newer.iter().chain(&*older).filter_map(Layer::key);
        let lower = if self.lower_on { self.lower.key() } else { None };
        let limits = others.chain(lower).chain(stop);
        // The layer's order and the front's head are those of a key before, until the front is passed. Nothing is
        // compared with them earlier.
        Some((layer, if FORWARD { limits.min() } else { limits.max() }))
    }

    /// Returns whether every entry is the lower layer's.
    pub fn is_lower_alone(&self) -> bool {
        self.uppers.is_empty() && !self.may_expire
    }

    /// Moves forward over many entries of one layer, where [`Merged::run`] would, and lends them, or returns `None` and
    /// stays. `ahead` says whether it lends what is certain to follow, too: see [`Layer::lend_run`]. For `stop` see
    /// [`Merged::next`].
    #[inline]
    pub fn lend_run(&mut self, most: u32, ahead: bool, stop: Option<&[u8]>) -> Option<LeafRun> {
        let certain = if ahead { u32::MAX } else { most };
        match self.at {
            _ if !self.forward => None,
            At::Lower if self.clear > 0 => {
                let run = self.lower.lend_run(None, most.min(self.clear), certain.min(self.clear))?;
                self.clear -= run.left() as u32;
                Some(run)
            }
            At::Front { tied: false } => {
                let (layer, limit) = self.front_and_limit::<true>(stop)?;
                layer.lend_run(limit, most, certain)
            }
            _ => None,
        }
    }
}
