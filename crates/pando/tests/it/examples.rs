//! The programs under `examples/` assert what they show: each is run.
#![allow(unreachable_pub)]

#[path = "../../examples/async_server.rs"]
mod async_server;
#[path = "../../examples/backup.rs"]
mod backup;
#[path = "../../examples/bulk_load.rs"]
mod bulk_load;
#[path = "../../examples/change_layout.rs"]
mod change_layout;
#[path = "../../examples/consume_changes.rs"]
mod consume_changes;
#[path = "../../examples/inverted_index.rs"]
mod inverted_index;
#[path = "../../examples/ttl_cache.rs"]
mod ttl_cache;

#[test]
fn an_asynchronous_server_loses_no_request() {
    async_server::main().unwrap();
}

#[test]
fn a_backup_is_restored_as_of_either_time() {
    backup::main().unwrap();
}

#[test]
fn a_bulk_load_is_all_or_nothing() {
    bulk_load::main().unwrap();
}

#[test]
fn a_consumer_goes_on_after_a_restart() {
    consume_changes::main().unwrap();
}

#[test]
fn a_layout_changes_beside_readers_and_writers() {
    change_layout::main().unwrap();
}

#[test]
fn an_inverted_index_follows_its_documents() {
    inverted_index::main().unwrap();
}

#[test]
fn a_cache_forgets_after_a_minute() {
    ttl_cache::main().unwrap();
}
