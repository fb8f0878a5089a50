//! What a thread asks the scheduler for: an exact end of a sleep, and a short time slice.

mod sleep;
mod time_slice;

pub use sleep::nap;
pub use time_slice::ShortTimeSlice;
