//! The tokens of commits: stored with each commit, and deleted when nobody will ask for them.

use crate::{server, statements};
use pando_postgres::Options;

/// Opening deletes 2,000 old tokens, and so does each thousandth commit, so a process that stays open needs no help.
#[test]
fn old_tokens_are_deleted_at_the_opening_and_between_commits() {
    let Some(server) = server::shared() else { return };
    let schema = server::schema();
    let open = || Options::default().schema(&schema).open(&server::url(server)).unwrap();
    let db = open();
    let t = db.ensure_table("t").unwrap();
    let count = |of: &str| -> u64 {
        let sql = format!("SELECT count(*) FROM {schema}.commits WHERE made {of} now() - interval '7 days'");
        statements::run(server, &sql).unwrap().parse().unwrap()
    };
    let old = format!(
        "INSERT INTO {schema}.commits (token, committed, made)
         SELECT int4send(n), true, now() - interval '8 days' FROM generate_series(1, 5000) n"
    );
    statements::run(server, &old);
    assert_eq!((count("<"), count(">")), (5000, 1));
    let other = open();
    assert_eq!(count("<"), 3000);
    drop(other);
    // The first commit made the table.
    for number in 0..998_u32 {
        db.put(&t, number.to_be_bytes(), "").unwrap();
    }
    assert_eq!((count("<"), count(">")), (3000, 999));
    db.put(&t, "thousandth", "").unwrap();
    assert_eq!((count("<"), count(">")), (1000, 1000), "young tokens stay");
}
