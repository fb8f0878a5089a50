//! Killing a process that writes, and judging what it leaves.
//!
//! * [`workload`]: the commits, each computable from a seed, and the judge of a database after a kill;
//! * [`writer`]: the child, which writes until it is killed and acknowledges each commit on its standard output;
//! * [`victim`]: the parent's side of a child;
//! * [`kills`]: many rounds over one database.

pub mod kills;
pub mod victim;
pub mod workload;
pub mod writer;
