//! The parts that depend on the system and the processor. Each file uses those before it: [`modules`] (the loaded code
//! with its unwind tables), [`unwind`] (from registers to return addresses), `thread` (its name and `errno`),
//! [`capture`] (a stack into the ring), [`signal`] (ticks of CPU time).

mod modules;
mod unwind;
mod thread;
mod capture;
mod signal;

pub(crate) use capture::capture;
pub(crate) use signal::{start_ticks, stop_ticks};
pub(crate) use unwind::prepare;
