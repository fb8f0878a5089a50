//! Where the values of a row that is written come from.

use crate::value::Value;

/// What a row's values are taken from: a slice of [`Value`]s, or a struct that derives `Row`.
pub trait Columns {
    /// How many values there are.
    fn count(&self) -> usize;
    /// The value at a place, lent.
    fn value(&self, place: usize) -> Value<'_>;
    /// Runs `look` on the value at a place: where it lies as a [`Value`], without making another.
    #[inline]
    fn look_at<T>(&self, place: usize, look: impl FnOnce(&Value<'_>) -> T) -> T {
        look(&self.value(place))
    }
}

impl Columns for [Value<'_>] {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn value(&self, place: usize) -> Value<'_> {
        self[place].borrowed()
    }

    #[inline]
    fn look_at<T>(&self, place: usize, look: impl FnOnce(&Value<'_>) -> T) -> T {
        look(&self[place])
    }
}

impl<const N: usize> Columns for [Value<'_>; N] {
    fn count(&self) -> usize {
        N
    }

    #[inline]
    fn value(&self, place: usize) -> Value<'_> {
        self[place].borrowed()
    }

    #[inline]
    fn look_at<T>(&self, place: usize, look: impl FnOnce(&Value<'_>) -> T) -> T {
        look(&self[place])
    }
}

impl Columns for Vec<Value<'_>> {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn value(&self, place: usize) -> Value<'_> {
        self[place].borrowed()
    }

    #[inline]
    fn look_at<T>(&self, place: usize, look: impl FnOnce(&Value<'_>) -> T) -> T {
        look(&self[place])
    }
}
