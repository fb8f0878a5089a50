//! Requests to the scheduler of the operating system: a sleep that ends in time, and a short time slice.
//! `docs/background-work.md` has the effect of each.

mod sleep;
mod time_slice;

pub use sleep::precise_sleep;
pub use time_slice::ShortTimeSlice;
