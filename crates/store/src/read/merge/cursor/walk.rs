//! Walks of a cursor over dead entries: when they ask for a shortcut, and what they record. See
//! [`super::super::shortcuts`].

use super::super::Layer;
use super::super::shortcuts::{Ahead, FIRST_ASK, Shortcuts, WORTH_NOTING};
use super::{At, Front, Merged, directed};
use base::Result;

impl<U: Layer, L: Layer, S: Shortcuts> Merged<U, L, S> {
    /// This is out of line, because most tables have no TTL.
    #[inline(never)]
    pub(super) fn has_lower_expired(&self) -> Result<bool> {
        self.lower.entry().map_or(Ok(false), |(_, item)| self.shortcuts.has_expired(item))
    }

    #[inline(never)]
    pub(super) fn has_front_expired(&self, front: Front) -> Result<bool> {
        self.uppers[front.layer].entry().map_or(Ok(false), |(_, item)| self.shortcuts.has_expired(item))
    }

    /// Notes that a dead entry was passed.
    #[inline]
    pub(super) fn walk_on<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) -> Result<()> {
        self.dead = self.dead.saturating_add(1);
        if self.dead >= self.ask_at { self.leap::<FORWARD>(stop) } else { Ok(()) }
    }

    /// Ends the walk, if there is one: on an entry, or off an end.
    #[inline]
    pub(super) fn end_walk<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) {
        if self.dead > 0 {
            self.note_walk::<FORWARD>(stop);
        }
    }

    #[cold]
    fn note_walk<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) {
        if self.dead >= FIRST_ASK {
            self.shortcuts.walked(self.dead);
        }
        if self.dead >= WORTH_NOTING {
            let key = match (self.at, self.front) {
                (At::Lower, _) => self.lower.key(),
                (At::Front { .. }, Some(front)) => self.uppers[front.layer].key(),
                _ => None,
            };
            self.shortcuts.arrived(key, FORWARD, stop);
        }
        (self.dead, self.ask_at) = (0, FIRST_ASK);
    }

    /// Asks for a shortcut, and takes it.
    #[cold]
    fn leap<const FORWARD: bool>(&mut self, stop: Option<&[u8]>) -> Result<()> {
        let front = self.front.and_then(|front| self.uppers[front.layer].key());
        let lower = self.lower.key().filter(|_| self.lower_on);
        let comes_first = |a: &&[u8], b: &&[u8]| directed::<FORWARD>(a.cmp(b));
        let Some(key) = [front, lower].into_iter().flatten().min_by(comes_first) else { return Ok(()) };
        if self.dead == FIRST_ASK {
            self.shortcuts.set_out(key);
        }
        self.ask_at = self.dead.saturating_mul(2);
        let Ahead::Beyond { mut bound, but_own } = self.shortcuts.ahead(key, FORWARD, stop) else {
            return Ok(());
        };
        for own in self.uppers[..if but_own { self.own } else { 0 }].iter().filter_map(Layer::key) {
            let own = if FORWARD { own.to_vec() } else { [own, &[0]].concat() };
            if bound.as_ref().is_none_or(|bound| directed::<FORWARD>(own.cmp(bound)).is_lt()) {
                bound = Some(own);
            }
        }
        let leads_on = |bound: &[u8]| if FORWARD { bound > key } else { bound <= key };
        match bound {
            None => (self.front, self.lower_on) = (None, false),
            Some(bound) if !leads_on(&bound) => return Ok(()),
            Some(bound) if FORWARD => {
                self.put_layers::<true>(|upper| upper.seek(&bound), |lower| lower.seek(&bound))?;
            }
            Some(bound) => {
                self.put_layers::<false>(
                    |upper| upper.seek_before(&bound),
                    |lower| lower.seek_before(&bound),
                )?;
            }
        }
        self.ask_at = self.dead.saturating_add(FIRST_ASK);
        Ok(())
    }
}
