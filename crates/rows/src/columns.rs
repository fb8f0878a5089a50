//! The source of the values of a row that is written.

use crate::value::Value;

/// A source of a row's values: a slice of [`Value`]s, or a struct that derives `Row`.
pub trait Columns {
    /// Returns the number of values.
    fn count(&self) -> usize;
    /// Returns the value at a place, borrowed.
    fn value(&self, place: usize) -> Value<'_>;
    /// Calls `look` on the value at a place, without a copy if the source stores a [`Value`] there.
    #[inline]
    fn look_at<T>(&self, place: usize, look: impl FnOnce(&Value<'_>) -> T) -> T {
        look(&self.value(place))
    }
}

/// Implements [`Columns`] for values in their order, whatever their container.
macro_rules! values_in_order {
    ([$($generics:tt)*] $of:ty) => {
        impl<$($generics)*> Columns for $of {
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
    };
}

values_in_order!([] [Value<'_>]);
values_in_order!([const N: usize] [Value<'_>; N]);
values_in_order!([] Vec<Value<'_>>);
