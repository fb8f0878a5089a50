//! The recipes under `examples/` assert what they show: each is run.
#![allow(unreachable_pub)]

#[path = "../../examples/cache.rs"]
mod cache;
#[path = "../../examples/graph.rs"]
mod graph;
#[path = "../../examples/ledger.rs"]
mod ledger;
#[path = "../../examples/queue.rs"]
mod queue;
#[path = "../../examples/time_series.rs"]
mod time_series;

#[test]
fn a_cache_forgets_what_is_stale_or_unused() {
    cache::main().unwrap();
}

#[test]
fn a_graph_is_searched_and_loses_a_node() {
    graph::main().unwrap();
}

#[test]
fn a_ledger_loses_no_cent() {
    ledger::main().unwrap();
}

#[test]
fn a_queue_hands_out_each_job_once() {
    queue::main().unwrap();
}

#[test]
fn a_time_series_expires() {
    time_series::main().unwrap();
}
