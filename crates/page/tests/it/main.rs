//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

mod compressed;
mod hostile;
mod model;
