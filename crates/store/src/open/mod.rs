//! Opening: a database is created, recovered from its files, opened for reading only, or built from a copy of another.

pub mod recovery;
pub(crate) mod replay;
pub(crate) mod claims;
mod kept;
pub(crate) mod read_only;
pub mod beside;
pub mod pinned;
pub mod rebuild;
#[cfg(test)]
mod tests;
