//! What a thread asks the scheduler of the operating system for: a sleep that ends in time, and a short time slice.
//! `docs/background-work.md` says what each is worth.

mod sleep;
mod time_slice;

pub use sleep::precise_sleep;
pub use time_slice::ShortTimeSlice;
