//! Tests over buckets in memory that lose, delay, duplicate and reorder requests, and over a model of a database.

mod damage;
mod faulty;
mod model;
mod replicas;
mod restores;
mod shipping;
mod takeover;
