//! The tests of isolation, in one program. It is not that of the other tests: histories keep all processors busy for as
//! long as they run, and some of the other tests wait for something with a limit on the time.

mod batches;
mod concurrent;
mod hermitage;
mod histories;
mod planted;
mod reads;
mod snapshots;
mod visibility;
