//! Watching: figures of an open database, how a read would go, which layout a table wants, and whether everything is
//! as it should be. Nothing here changes what is stored.

pub mod stats;
pub mod figures;
mod explain;
pub mod advice;
pub mod check;
mod check_catalog;
