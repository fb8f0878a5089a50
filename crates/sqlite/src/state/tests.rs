//! What SQLite cannot be made to show by statements: the moment between the two phases of a commit.

use super::*;
use std::thread;

fn begin(state: &mut State, is_write: bool) {
    let (is_immediate, savepoints, is_outermost, is_synced) = (false, 0, false, true);
    let begin = Begin { is_write, is_autocommit: true, is_immediate, savepoints, is_outermost, is_synced };
    state.begin(begin).expect("nobody excludes it");
}

#[test]
fn a_statement_reads_on_from_its_connections_commit() {
    let mut state = State::new(Database::builder().in_memory().expect("it opens").into()).expect("it opens");
    begin(&mut state, true);
    let root = state.create().expect("it writes");
    state.commit().expect("it commits");
    state.end(false);

    // A write beside a statement that reads.
    begin(&mut state, false);
    let tree = state.tree(root).expect("it exists");
    let before = tree.version.get();
    begin(&mut state, true);
    state.commit().expect("it commits");
    let writers = Arc::clone(&state.writers);
    let other =
        || thread::scope(|scope| scope.spawn(|| writers.begin_commit().map(drop)).join().expect("it ends"));
    assert_eq!(other(), Err(Blocked::ForNow), "that statement would read on from another commit");
    state.end(true);
    assert_eq!(other(), Ok(()));
    assert!(tree.version.get() > before, "what was read ahead is of another state");
    state.end(false);
}
