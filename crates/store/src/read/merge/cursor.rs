//! The merged cursor.
//!
//! 1. Moving forward, every layer stands on its first entry at or after the current key (backward: its last at or
//!    before). `Merged::settle` skips entries that are hidden or deleted.
//! 2. The *front* is the next entry of the upper layers, and the set of upper layers that stand on its key: the newest
//!    of these decides. It changes only when it is passed, so that a step inside the lower layer compares one cached
//!    word, and whole keys only if the words are equal. Such a word is kept for each upper layer, too, and the front is
//!    found by comparing these.
//! 3. A step takes whichever comes first, the lower layer's entry or the front. On equal keys the front wins, and
//!    passing it passes both.
//! 4. Turning round repositions every layer by the current key. Off an end, turning round leads back to that end's
//!    entry.
//! 5. A lower entry that a range tombstone covers is stepped over. After `PATIENCE` of them in a row the lower layer
//!    seeks to the end of the tombstone, so that a dropped range costs no walk through it.
//! 6. When a step ends inside the lower layer, that is asked how many more are certain to stay before the front, and
//!    before the key where the caller will stop (a search each in its leaf, short if the answer is small). For these,
//!    and for all if there is neither, no key is compared.
//! 7. These steps can be taken by themselves ([`Merged::step_in_leaf`]), and many at a time ([`Merged::run`]): a
//!    loop over the records of a leaf. The front moves many steps at a time, too, as long as it stays before all other
//!    layers: the least of their keys is looked for once.
//! 8. A walk over dead entries asks for a shortcut around them: [`super::shortcuts`].
//!
//! Both directions share one code, with the direction as a constant.

mod runs;
mod walk;

use super::Layer;
use super::shortcuts::{FIRST_ASK, Shortcuts};
use base::keys::head8;
use base::{Result, Value};
use std::cmp::Ordering;

/// The greatest number of layers above the lower one: a bit each.
pub const MOST_LAYERS: usize = 128;

/// A seek costs about this many steps.
const PATIENCE: u32 = 16;

/// The position of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// No position: the cursor was never moved, or a move failed.
    Nowhere,
    BeforeFirst,
    AfterLast,
    Lower,
    /// On the front. `tied`: the lower layer stands on the same key.
    Front {
        tied: bool,
    },
}

/// The upper layers' next entry.
#[derive(Clone, Copy, Debug)]
struct Front {
    /// The newest layer that has the entry.
    layer: usize,
    /// All upper layers on the same key, as bits.
    layers: u128,
    /// The key's first bytes, as a number.
    head: u64,
    /// Whether the entry is a delete, or a newer layer's range tombstone covers it.
    deleted: bool,
}

/// The merged cursor; see the module and [`super`]. Every move returns whether it ended on an entry. After an error the
/// cursor is on none; any seek, and also `next` and `prev`, then begins anew.
#[derive(Debug)]
pub struct Merged<U, L, S = ()> {
    uppers: Vec<U>,
    /// The number of layers that are the transaction's own.
    own: usize,
    /// For each upper layer, a word that mostly decides the order of its key in the cursor's direction: see [`order8`].
    orders: Vec<u64>,
    lower: L,
    lower_on: bool,
    front: Option<Front>,
    at: At,
    forward: bool,
    has_ranges: bool,
    /// The steps of the lower layer that are certain to stay before the front, and before the caller's stop.
    clear: u32,
    /// The hidden entries that were passed since the last visible one.
    hidden: u32,
    shortcuts: S,
    may_expire: bool,
    /// The dead entries that this walk passed, and the number at which it asks for a shortcut.
    dead: u32,
    ask_at: u32,
    /// A buffer for the key at which the cursor turns.
    turning: Vec<u8>,
}

#[inline]
fn step<const FORWARD: bool>(layer: &mut impl Layer) -> Result<bool> {
    if FORWARD { layer.next() } else { layer.prev() }
}

/// Returns `Less` if `a` comes first in the direction.
#[inline]
fn directed<const FORWARD: bool>(order: Ordering) -> Ordering {
    if FORWARD { order } else { order.reverse() }
}

/// The order of a layer that is off its entries. A key can have the same order; then keys are compared.
const OFF: u64 = u64::MAX;

/// Returns a number that is smaller the sooner the key comes in the direction, as far as its first eight bytes decide.
#[inline]
fn order8<const FORWARD: bool>(key: Option<&[u8]>) -> u64 {
    key.map_or(OFF, |key| if FORWARD { head8(key) } else { !head8(key) })
}

// A step of a cursor is not an iterator's `next`: what it shows is borrowed from the cursor.
#[allow(clippy::should_implement_trait)]
impl<U: Layer, L: Layer, S: Shortcuts> Merged<U, L, S> {
    /// Creates a cursor over `uppers`, newest first (at most 128), the first `own` of them the transaction's, and
    /// `lower`. It is on no entry yet.
    pub fn new(uppers: Vec<U>, own: usize, lower: L, shortcuts: S) -> Self {
        assert!(uppers.len() <= MOST_LAYERS, "{} layers above the run", uppers.len());
        let has_ranges = uppers.iter().any(Layer::has_ranges);
        Merged {
            orders: vec![OFF; uppers.len()],
            uppers,
            own,
            lower,
            lower_on: false,
            front: None,
            at: At::Nowhere,
            forward: true,
            has_ranges,
            clear: 0,
            hidden: 0,
            may_expire: shortcuts.may_expire(),
            shortcuts,
            dead: 0,
            ask_at: FIRST_ASK,
            turning: Vec::new(),
        }
    }

    /// Returns the key and its newest value; `None` if the cursor is on no entry. The item is never [`Value::Deleted`].
    #[inline(always)] // Once a record of every scan; compilers took it for too long, or not, by chance.
    pub fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        match self.at {
            At::Lower => self.lower.entry(),
            At::Front { .. } => self.uppers[self.front?.layer].entry(),
            _ => None,
        }
    }

    /// Moves to the first entry. For `stop` see [`Merged::next`].
    pub fn seek_first(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        self.place::<true>(stop, Layer::seek_first, Layer::seek_first)
    }

    /// Moves to the last entry. For `stop` see [`Merged::next`].
    pub fn seek_last(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        self.place::<false>(stop, Layer::seek_last, Layer::seek_last)
    }

    /// Moves to the first entry at or after `key`. For `stop` see [`Merged::next`].
    pub fn seek(&mut self, key: &[u8], stop: Option<&[u8]>) -> Result<bool> {
        self.place::<true>(stop, |upper| upper.seek(key), |lower| lower.seek(key))
    }

    /// Moves to the last entry before `key`. For `stop` see [`Merged::next`].
    pub fn seek_before(&mut self, key: &[u8], stop: Option<&[u8]>) -> Result<bool> {
        self.place::<false>(stop, |upper| upper.seek_before(key), |lower| lower.seek_before(key))
    }

    /// Moves to the next entry; to the first, if the cursor is before the first or was never moved. `stop` is a key
    /// where the caller will end, if there is one. For each direction it must be the same in a seek and in the moves
    /// after it, until the next seek: a move counts the steps before it, and later moves take these unchecked.
    #[inline]
    pub fn next(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        self.advance::<true>(stop)
    }

    /// Moves to the previous entry; to the last, if the cursor is after the last or was never moved. For `stop` see
    /// [`Merged::next`].
    #[inline]
    pub fn prev(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        self.advance::<false>(stop)
    }

    /// Takes a step in the direction of the last one if its result is certain: the lower layer's next entry, which is
    /// in memory, has a [`Value::Inline`], and lies before `stop`. Otherwise the cursor stays. Most steps of a long
    /// scan are of this kind.
    #[inline]
    pub fn step_in_leaf<const FORWARD: bool>(&mut self) -> bool {
        let is_clear = self.clear > 0 && self.at == At::Lower && self.forward == FORWARD;
        let steps = is_clear && self.lower.step_in_leaf(FORWARD);
        self.clear -= u32::from(steps);
        steps
    }

    /// Returns whether [`Merged::stepped`] returns the entry: it is the lower layer's, and its value lies in the page.
    #[inline]
    pub fn has_stepped(&self) -> bool {
        self.at == At::Lower && self.lower.stepped().is_some()
    }

    /// Returns the result of [`Merged::entry`] after [`Merged::step_in_leaf`]: key and value.
    #[inline]
    pub fn stepped(&self) -> Option<(&[u8], &[u8])> {
        self.lower.stepped()
    }

    /// Returns the last key of which any layer has an entry, including a delete or a hidden one. It takes one seek in
    /// each layer. The cursor is on no entry afterwards.
    pub fn last_key_of_any(&mut self) -> Result<Option<&[u8]>> {
        self.at = At::Nowhere;
        for layer in &mut self.uppers {
            layer.seek_last()?;
        }
        self.lower_on = self.lower.seek_last()?;
        Ok(self.uppers.iter().filter_map(Layer::key).chain(self.lower.key()).max())
    }

    /// Returns the first key at or after `from` of which any layer has an entry.
    pub fn first_key_of_any(&mut self, from: &[u8]) -> Result<Option<&[u8]>> {
        self.at = At::Nowhere;
        for layer in &mut self.uppers {
            layer.seek(from)?;
        }
        self.lower_on = self.lower.seek(from)?;
        Ok(self.uppers.iter().filter_map(Layer::key).chain(self.lower.key()).min())
    }

    /// Positions every layer anew.
    fn place<const FORWARD: bool>(
        &mut self,
        stop: Option<&[u8]>,
        upper: impl FnMut(&mut U) -> Result<bool>,
        lower: impl FnOnce(&mut L) -> Result<bool>,
    ) -> Result<bool> {
        self.at = At::Nowhere;
        self.forward = FORWARD;
        (self.hidden, self.dead, self.ask_at) = (0, 0, FIRST_ASK);
        self.put_layers::<FORWARD>(upper, lower)?;
        self.settle::<FORWARD>(stop)
    }

    fn put_layers<const FORWARD: bool>(
        &mut self,
        mut upper: impl FnMut(&mut U) -> Result<bool>,
        lower: impl FnOnce(&mut L) -> Result<bool>,
    ) -> Result<()> {
        for (layer, order) in self.uppers.iter_mut().zip(&mut self.orders) {
            upper(layer)?;
            *order = order8::<FORWARD>(layer.key());
        }
        self.lower_on = lower(&mut self.lower)?;
        self.find_front::<FORWARD>();
        Ok(())
    }

    #[inline]
    fn advance<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        if self.at != At::Lower || self.forward != FORWARD {
            return self.advance_otherwise::<FORWARD>(stop);
        }
        // If the step fails, the cursor has no position.
        self.at = At::Nowhere;
        self.lower_on = step::<FORWARD>(&mut self.lower)?;
        if self.clear > 0 && self.lower_on {
            self.clear -= 1;
            if !self.may_expire || !self.has_lower_expired()? {
                self.at = At::Lower;
                return Ok(true);
            }
        }
        self.settle::<FORWARD>(stop)
    }

    /// Takes every step except one inside the lower layer.
    fn advance_otherwise<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        match self.at {
            At::AfterLast if FORWARD => Ok(false),
            At::BeforeFirst if !FORWARD => Ok(false),
            At::Front { tied } if self.forward == FORWARD => {
                self.at = At::Nowhere;
                self.pass_front::<FORWARD>(tied)?;
                self.settle::<FORWARD>(stop)
            }
            At::Lower | At::Front { .. } => self.turn::<FORWARD>(stop),
            _ if FORWARD => self.seek_first(stop),
            _ => self.seek_last(stop),
        }
    }

    /// Takes the first step in the other direction.
    fn turn<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        let mut key = std::mem::take(&mut self.turning);
        key.clear();
        key.extend_from_slice(self.entry().expect("the cursor turns on an entry").0);
        let moved = if FORWARD {
            self.place::<true>(stop, |upper| seek_after(upper, &key), |lower| seek_after(lower, &key))
        } else {
            self.seek_before(&key, stop)
        };
        self.turning = key;
        moved
    }

    /// Skips deleted and hidden entries, and stops on the first visible one.
    fn settle<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) -> Result<bool> {
        loop {
            let lower_first = match self.front {
                Some(front) if self.lower_on => directed::<FORWARD>(self.lower_against(front)),
                Some(_) => Ordering::Greater,
                None if self.lower_on => Ordering::Less,
                None => {
                    self.at = if FORWARD { At::AfterLast } else { At::BeforeFirst };
                    self.end_walk::<FORWARD>(stop);
                    return Ok(false);
                }
            };
            if lower_first.is_lt() {
                if self.has_ranges && self.pass_hidden::<FORWARD>()? {
                    self.walk_on::<FORWARD>(stop)?;
                    continue;
                }
                if self.may_expire && self.has_lower_expired()? {
                    self.lower_on = step::<FORWARD>(&mut self.lower)?;
                    self.walk_on::<FORWARD>(stop)?;
                    continue;
                }
                self.look_ahead::<FORWARD>(stop);
                self.at = At::Lower;
                self.end_walk::<FORWARD>(stop);
                return Ok(true);
            }
            let tied = lower_first.is_eq();
            if let Some(front) = self.front
                && !front.deleted
                && !(self.may_expire && self.has_front_expired(front)?)
            {
                self.at = At::Front { tied };
                self.end_walk::<FORWARD>(stop);
                return Ok(true);
            }
            self.pass_front::<FORWARD>(tied)?;
            self.walk_on::<FORWARD>(stop)?;
        }
    }

    /// Computes how long the lower layer will come first.
    #[inline]
    fn look_ahead<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) {
        if self.has_ranges {
            return;
        }
        let front = self.front.map(|front| self.uppers[front.layer].key().expect("the front is an entry"));
        let before = |most, key| self.lower.steps_before(key, FORWARD, most);
        self.clear = [front, stop].into_iter().flatten().fold(u32::MAX, before);
    }

    /// Compares the lower layer's key with the front's.
    #[inline]
    fn lower_against(&self, front: Front) -> Ordering {
        let key = self.lower.key().expect("the lower layer is on an entry");
        let by_head = head8(key).cmp(&front.head);
        by_head.then_with(|| key.cmp(self.uppers[front.layer].key().expect("the front is an entry")))
    }

    #[inline]
    fn find_front<const FORWARD: bool>(&mut self) {
        self.clear = 0;
        self.front = self.first_above::<FORWARD>();
    }

    fn first_above<const FORWARD: bool>(&self) -> Option<Front> {
        let mut least = *self.orders.first()?;
        let (mut layer, mut layers) = (0, 1);
        for (at, &order) in self.orders.iter().enumerate().skip(1) {
            let comes = match order.cmp(&least) {
                Ordering::Equal => self.uppers_in_order::<FORWARD>(at, layer),
                otherwise => otherwise,
            };
            match comes {
                Ordering::Less => (layer, layers, least) = (at, 1 << at, order),
                Ordering::Equal => layers |= 1 << at,
                Ordering::Greater => {}
            }
        }
        let (key, item) = self.uppers[layer].entry()?;
        let is_hidden = || self.uppers[..layer].iter().any(|newer| newer.covering(key).is_some());
        let deleted = matches!(item, Value::Deleted) || (self.has_ranges && is_hidden());
        Some(Front { layer, layers, head: if FORWARD { least } else { !least }, deleted })
    }

    /// Compares two upper layers whose orders are equal. One that is off its entries comes last.
    fn uppers_in_order<const FORWARD: bool>(&self, one: usize, other: usize) -> Ordering {
        match (self.uppers[one].key(), self.uppers[other].key()) {
            (Some(one), Some(other)) => directed::<FORWARD>(one.cmp(other)),
            (one, other) => other.is_some().cmp(&one.is_some()),
        }
    }

    /// Steps over the front in every layer that stands on its key, including the lower one if it is `tied`.
    fn pass_front<const FORWARD: bool>(&mut self, tied: bool) -> Result<()> {
        let mut layers = self.front.map_or(0, |front| front.layers);
        while layers != 0 {
            let at = layers.trailing_zeros() as usize;
            step::<FORWARD>(&mut self.uppers[at])?;
            self.orders[at] = order8::<FORWARD>(self.uppers[at].key());
            layers &= layers - 1;
        }
        if tied {
            self.lower_on = step::<FORWARD>(&mut self.lower)?;
        }
        self.find_front::<FORWARD>();
        Ok(())
    }

    /// Moves the lower layer on if an upper layer's range tombstone hides its entry. Returns whether it did.
    fn pass_hidden<const FORWARD: bool>(&mut self) -> Result<bool> {
        let key = self.lower.key().expect("the lower layer is on an entry");
        let Some((start, end)) = self.uppers.iter().find_map(|upper| upper.covering(key)) else {
            self.hidden = 0;
            return Ok(false);
        };
        self.hidden += 1;
        self.lower_on = match end {
            _ if self.hidden <= PATIENCE => step::<FORWARD>(&mut self.lower)?,
            Some(end) if FORWARD => self.lower.seek(end)?,
            None if FORWARD => false,
            _ => self.lower.seek_before(start)?,
        };
        Ok(true)
    }
}

/// Moves to the first entry after `key`.
fn seek_after(layer: &mut impl Layer, key: &[u8]) -> Result<bool> {
    let on = layer.seek(key)?;
    if on && layer.key() == Some(key) { layer.next() } else { Ok(on) }
}
