//! The workloads, one file each. The head of a file is the definition of its workload.

mod cases;

mod baseline;
mod btree_insert;
mod bulk;
mod ceilings;
mod delete_churn;
mod http_kv;
mod kv_load;
mod leaf_edit;
mod many_ranges;
mod point_get;
mod queue;
mod range_delete;
mod read_start;
mod scan;
mod steady;
mod write_throughput;
mod ycsb;

use crate::report::Row;
use crate::settings::Settings;
use crate::{Failure, Outcome};

/// One workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// Runs the workload once on a new database, and checks what it wrote.
    pub run: fn(&Settings) -> Outcome<Vec<Row>>,
}

/// All workloads, in the order of `--list`.
pub const ALL: [Workload; 17] = [
    Workload { name: btree_insert::NAME, run: btree_insert::run },
    Workload { name: leaf_edit::NAME, run: leaf_edit::run },
    Workload { name: read_start::NAME, run: read_start::run },
    Workload { name: write_throughput::NAME, run: write_throughput::run },
    Workload { name: bulk::NAME, run: bulk::run },
    Workload { name: point_get::NAME, run: point_get::run },
    Workload { name: scan::NAME, run: scan::run },
    Workload { name: delete_churn::NAME, run: delete_churn::run },
    Workload { name: range_delete::NAME, run: range_delete::run },
    Workload { name: many_ranges::NAME, run: many_ranges::run },
    Workload { name: queue::NAME, run: queue::run },
    Workload { name: kv_load::NAME, run: kv_load::run },
    Workload { name: steady::NAME, run: steady::run },
    Workload { name: ceilings::NAME, run: ceilings::run },
    Workload { name: ycsb::NAME, run: ycsb::run },
    Workload { name: http_kv::NAME, run: http_kv::run },
    Workload { name: baseline::NAME, run: baseline::run },
];

/// Returns the workload called `name`.
pub fn named(name: &str) -> Outcome<&'static Workload> {
    let unknown = || {
        let names: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
        Failure::Usage(format!("there is no workload {name:?}; there are {}", names.join(", ")))
    };
    ALL.iter().find(|workload| workload.name == name).ok_or_else(unknown)
}
