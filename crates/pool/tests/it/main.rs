//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.
//! `--cfg shuttle` leaves those that shuttle drives.

mod common;
mod give;
mod pool;
mod share;
mod shuttle;
