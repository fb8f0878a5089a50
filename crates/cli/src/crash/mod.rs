//! Kills a writing process and judges the database that it leaves.
//!
//! * [`workload`]: the commits, each computed from a seed, and the judge of a database after a kill.
//! * [`writer`]: the child, which writes until it is killed and acknowledges each commit on its standard output.
//! * [`victim`]: the parent's handle of a child.
//! * [`kills`]: many rounds on one database.

pub mod kills;
pub mod victim;
pub mod workload;
pub mod writer;
