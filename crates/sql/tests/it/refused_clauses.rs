//! What a definition of a typed table says is followed, or refused by name: never accepted and passed over.

use crate::support::Both;

#[test]
fn clauses_that_are_not_followed_are_refused_by_name() {
    let connection = Both::typed().ours;
    connection.execute_batch("CREATE TABLE p(id INTEGER PRIMARY KEY, a INT)").unwrap();
    for (statement, name) in [
        ("ALTER TABLE p ADD COLUMN c INT NOT NULL ON CONFLICT REPLACE DEFAULT 4", "ON CONFLICT REPLACE"),
        ("ALTER TABLE p ADD COLUMN c INT REFERENCES p(id)", "foreign keys"),
        ("ALTER TABLE p ADD COLUMN c INT GENERATED ALWAYS AS (a + 1)", "generated"),
        ("CREATE INDEX i ON p(a) WHERE a > 5", "partial"),
        ("CREATE INDEX i ON p(a + 1)", "expression"),
        ("CREATE INDEX i ON p(a COLLATE mine)", "mine"),
        ("CREATE TRIGGER r AFTER INSERT ON p BEGIN SELECT 1; END", "triggers"),
        ("CREATE TEMP TRIGGER r AFTER INSERT ON p BEGIN SELECT 1; END", "triggers"),
        ("CREATE TABLE sqlite_pando_schema(a)", "reserved"),
        ("CREATE VIEW sqlite_pando_schema AS SELECT 1", "reserved"),
        ("CREATE TABLE IF NOT EXISTS sqlite_pando_transaction(a)", "reserved"),
        ("VACUUM INTO '/nowhere'", "VACUUM INTO"),
        ("PRAGMA page_count", "page_count"),
        ("PRAGMA schema_version = 5", "schema_version"),
        ("SELECT * FROM pragma_page_size", "page_size"),
    ] {
        // This one makes tables of SQLite's.
        let error = (*connection).execute(statement, &[]).expect_err(statement);
        assert!(error.message().contains(name), "{statement}: {error}");
    }
    let tables: Vec<_> = connection.tables().unwrap().into_iter().map(|table| table.create).collect();
    assert_eq!(tables, ["CREATE TABLE \"p\" (\n  \"id\" INTEGER PRIMARY KEY,\n  \"a\" INT\n)"]);
}

#[test]
fn clauses_that_are_followed_do_what_sqlite_does() {
    let both = Both::typed();
    both.run_all(
        "CREATE TABLE named(a INT CONSTRAINT one UNIQUE ON CONFLICT ABORT,
             b TEXT CONSTRAINT two CHECK(b <> 'x'));
         CREATE TABLE kept(id INTEGER PRIMARY KEY, v TEXT) STRICT, WITHOUT ROWID;
         CREATE TABLE strict(a INT, b ANY, c BLOB) STRICT",
    );
    for statement in [
        "INSERT INTO named VALUES(1, 'y')",
        "INSERT INTO named VALUES(1, 'z')",
        "INSERT INTO named VALUES(2, 'x')",
        "INSERT OR IGNORE INTO named VALUES(1, 'z'), (3, 'x'), (4, 'w')",
        // No id is given to a row without one.
        "INSERT INTO kept(v) VALUES('none')",
        "INSERT INTO kept VALUES(NULL, 'none')",
        "INSERT INTO kept VALUES(3, 'three'), ('4', 'four')",
        "SELECT rowid FROM kept",
        "INSERT INTO kept VALUES(3, 'again') ON CONFLICT(id) DO UPDATE SET v = v || '!' RETURNING v",
        "INSERT INTO kept VALUES(3, 'x') ON CONFLICT(\"kept\".\"id\") DO UPDATE SET v = v || '?' RETURNING v",
        "UPDATE kept SET id = 9 WHERE id = 3",
        "SELECT * FROM kept ORDER BY id",
        "SELECT max(id), min(id) FROM kept",
        "INSERT INTO strict VALUES(1, '5', x'00')",
        "INSERT INTO strict VALUES('a', 1, x'00')",
        "INSERT INTO strict VALUES(1, 1, 'text')",
        "SELECT typeof(a), typeof(b), typeof(c) FROM strict",
        "SELECT * FROM named ORDER BY a",
    ] {
        both.run(statement);
    }
}

/// `OR IGNORE` leaves out rows that break a constraint, and none whose values are of other types: SQLite's `STRICT`
/// tables say so, too.
#[test]
fn or_ignore_does_not_lose_rows_of_other_types() {
    let both = Both::typed();
    both.run_all("CREATE TABLE t(a INT UNIQUE, b TEXT NOT NULL) STRICT; INSERT INTO t VALUES(1, 'one')");
    for or in ["IGNORE", "REPLACE", "FAIL", "ABORT"] {
        for statement in [
            format!("INSERT OR {or} INTO t VALUES('y', 'p'), (7, 'q')"),
            format!("INSERT OR {or} INTO t VALUES(1.5, 'p')"),
            format!("UPDATE OR {or} t SET a = 'y'"),
            format!("INSERT OR {or} INTO t VALUES('y', 'p') ON CONFLICT(a) DO NOTHING"),
        ] {
            assert!(both.ours.execute(&statement, &[]).is_err(), "{statement}");
            assert!(both.sqlite.execute(&statement, []).is_err(), "{statement}");
        }
    }
    for statement in [
        "INSERT OR IGNORE INTO t VALUES(1, 'again'), (2, NULL), (3, 'three')",
        "INSERT INTO t VALUES(1, 'again') ON CONFLICT DO NOTHING",
        "SELECT * FROM t ORDER BY a",
    ] {
        both.run(statement);
    }
}

#[test]
fn changes_counts_what_a_statement_in_steps_did() {
    let both = Both::typed();
    both.run_all("CREATE TABLE t(a INTEGER PRIMARY KEY, b INT)");
    for statement in [
        "INSERT INTO t VALUES(1, 1), (2, 2), (3, 3), (4, 4) RETURNING a",
        "UPDATE t SET b = 0 WHERE a < 3 RETURNING a",
        "INSERT INTO t VALUES(1, 5), (9, 9) ON CONFLICT(a) DO UPDATE SET b = 5",
        "INSERT INTO t VALUES(1, 5), (2, 9) ON CONFLICT DO NOTHING",
        "DELETE FROM t WHERE a < 4 RETURNING a",
        "SELECT 1",
        "DELETE FROM t",
        "INSERT INTO t VALUES(7, 7)",
    ] {
        both.run(statement);
        both.run("SELECT changes()");
    }
}

/// A client that says that it does not expect foreign keys to be enforced may declare them. They are kept, for a
/// description and for an export.
#[test]
fn foreign_keys_are_kept_where_nobody_expects_that_they_are_enforced() {
    let connection = Both::typed().ours;
    let create = "CREATE TABLE t(a INTEGER PRIMARY KEY, p INT REFERENCES p(id) ON DELETE CASCADE)";
    connection.execute("CREATE TABLE p(id INTEGER PRIMARY KEY)", &[]).unwrap();
    connection.execute("PRAGMA foreign_keys = OFF", &[]).unwrap();
    connection.execute(create, &[]).unwrap();
    connection.execute("ALTER TABLE p ADD COLUMN t INT REFERENCES t(a)", &[]).unwrap();
    connection.execute("PRAGMA foreign_keys = ON", &[]).unwrap();
    connection.execute("INSERT INTO t VALUES (1, 7)", &[]).unwrap();
    let listed =
        connection.query("SELECT \"table\", on_delete FROM pragma_foreign_key_list('t')", &[]).unwrap();
    assert_eq!(listed, [["p".to_owned().into(), "CASCADE".to_owned().into()]]);
    // Tables that have some can still be altered; others cannot be added.
    connection.execute("ALTER TABLE t ADD COLUMN more TEXT", &[]).unwrap();
    let error = connection.execute("ALTER TABLE t ADD COLUMN q INT REFERENCES p(id)", &[]).unwrap_err();
    assert!(error.message().contains("foreign keys"), "{error}");
}
