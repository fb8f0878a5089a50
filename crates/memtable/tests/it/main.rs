//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.
//! `--cfg loom` leaves those that loom drives.

mod loom;
mod credit;
mod model;
mod idle;
mod staged;
mod tables;
