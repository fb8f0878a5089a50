//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

mod behaviour;
mod common;
mod crash;
mod faults;
mod os;
