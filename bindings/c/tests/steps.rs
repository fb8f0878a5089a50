//! A step whose read has failed can be repeated. In C only a call of another thread makes a read fail, so this test is
//! of the steps below the functions of C.

use binding::{Direction, Fill, Handle, Held, Source, Walk};
use pando::{Database, Span};
use std::iter;

/// More than two chunks.
const KEYS: usize = 50;

#[test]
fn a_failed_step_can_be_repeated() {
    let db = Database::builder().in_memory().expect("a database");
    let table = db.ensure_table("t").expect("a table");
    for key in 0..KEYS {
        db.put(&table, format!("{key:02}"), "v").expect("a put");
    }
    let source = Source::Snapshot(Held::take(&Handle::new(db)).expect("a snapshot"));
    let read = |fill: Fill<'_>| source.read(|reads| fill.run(reads, &table));
    let (forward, backward) = (Direction::Forward, Direction::Backward);
    for (steps, there, back) in
        (1..=KEYS + 1).flat_map(|steps| [(steps, forward, backward), (steps, backward, forward)])
    {
        let turns = [back, back, there, there, back, there, back, back];
        let (mut walk, mut other) = (Walk::new(Span::all()), Walk::new(Span::all()));
        for (index, direction) in iter::repeat_n(there, steps).chain(turns).enumerate() {
            // What was read ahead is dropped, at times, as after a write.
            let changes = index as u64 / 5;
            let found = match walk.step(direction, changes, |_| Err(())) {
                Ok(found) => found,
                Err(()) => walk.step(direction, changes, read).expect("a step"),
            };
            assert_eq!(
                other.step(direction, changes, read).expect("a step"),
                found,
                "{steps} steps {there:?}"
            );
            assert_eq!(other.current(), walk.current(), "step {index} after {steps} steps {there:?}");
        }
    }
}
