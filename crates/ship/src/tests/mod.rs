//! Tests over buckets in memory that lose, delay, duplicate and reorder requests, and over a model of a database.

mod damage;
mod drops;
pub mod faulty;
mod listings;
pub mod model;
mod orphans;
mod race;
mod replicas;
pub mod restores;
mod shipping;
mod takeover;
