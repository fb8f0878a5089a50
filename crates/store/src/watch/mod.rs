//! Monitoring: figures of an open database, the steps of a read, the recommended layout of a table, and checks of
//! consistency. Nothing here changes stored data.

pub mod stats;
pub mod figures;
mod explain;
pub mod advice;
pub mod check;
mod check_catalog;
mod checked;
