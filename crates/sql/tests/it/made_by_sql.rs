//! `CREATE` of a connection makes SQLite's own tables, views and triggers: everything is as in SQLite. Typed tables are
//! beside them.

use crate::support::{Both, is_over_a_store, typed};
use pando_sql::{Confines, Connection, Sql, Value};

fn open() -> (Sql, Connection) {
    let sql = Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    (sql, connection)
}

fn text(connection: &Connection, sql: &str) -> String {
    let rows = connection.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let shown = |value: &Value| match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("{bytes:?}"),
    };
    rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join("|")).collect::<Vec<_>>().join(" ")
}

/// What no typed table can have.
const SCHEMA: &str = "
    CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT REPLACE, born INT CHECK(born > 1800),
        age AS (2000 - born), decade INT GENERATED ALWAYS AS (born / 10) STORED);
    CREATE TABLE notes(person INT REFERENCES people(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, text);
    CREATE TABLE log(id INTEGER PRIMARY KEY AUTOINCREMENT, what);
    CREATE INDEX old ON people(born DESC) WHERE born < 1950;
    CREATE UNIQUE INDEX by_lower ON people(lower(name));
    CREATE VIEW grown AS SELECT name, age FROM people WHERE age >= 18;
    CREATE TRIGGER added AFTER INSERT ON people BEGIN INSERT INTO log(what) VALUES (new.name); END;
    CREATE TRIGGER through INSTEAD OF INSERT ON grown BEGIN
        INSERT INTO people(name, born) VALUES (new.name, 2000 - new.age); END;
    CREATE TEMP TRIGGER of_log BEFORE DELETE ON log BEGIN SELECT raise(ABORT, 'kept'); END;
    CREATE VIRTUAL TABLE words USING fts5(word, body);
    CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);
    CREATE TABLE loose(a INT, b, c TEXT PRIMARY KEY)";

const STATEMENTS: [&str; 41] = [
    "INSERT INTO people(name, born) VALUES ('ann', 1940), ('bob', 1990)",
    "INSERT INTO people(name, born) VALUES ('ann', 1950) RETURNING id, age, decade",
    "INSERT INTO people(name, born) VALUES ('ANN', 1950)",
    "INSERT INTO people(name, born) VALUES ('cid', 1700)",
    "INSERT INTO grown VALUES ('dora', 30)",
    "SELECT * FROM grown ORDER BY name",
    "SELECT * FROM log ORDER BY id",
    "DELETE FROM log",
    "INSERT INTO notes VALUES (99, 'nobody')",
    "INSERT INTO notes SELECT id, 'n' || name FROM people",
    "PRAGMA foreign_key_check",
    "DELETE FROM notes WHERE person = 99",
    "DELETE FROM people WHERE name = 'bob'",
    "SELECT count(*) FROM notes",
    "INSERT INTO words VALUES ('apple', 'a red fruit'), ('pear', 'a green fruit'), ('sky', 'blue')",
    "SELECT word, bm25(words) < 0 FROM words('fruit') ORDER BY rank, word",
    "UPDATE words SET body = 'a yellow fruit' WHERE word = 'sky'",
    "SELECT word FROM words WHERE body MATCH 'yell*'",
    "INSERT INTO places VALUES (1, 0, 1), (2, 5, 6)",
    "SELECT id FROM places WHERE x0 <= 5.5 AND x1 >= 5.5",
    "INSERT INTO loose VALUES ('text', x'00', NULL), (1.5, 2, NULL), ('12', 'b', 'k')",
    "INSERT OR IGNORE INTO loose VALUES ('y', 'p', 'k'), (1, 'q', 'l')",
    "SELECT typeof(a), a, b, c FROM loose ORDER BY rowid",
    "INSERT INTO loose VALUES (1, 2, 'k') ON CONFLICT(c) DO UPDATE SET a = excluded.a + 1 RETURNING a",
    "ALTER TABLE loose ADD COLUMN d DEFAULT 7",
    "ALTER TABLE people RENAME COLUMN born TO birth",
    "ALTER TABLE people RENAME TO persons",
    "SELECT sql FROM sqlite_schema WHERE name IN ('people', 'persons', 'added', 'grown') ORDER BY name",
    "PRAGMA table_xinfo(persons)",
    "PRAGMA index_list(persons)",
    "PRAGMA index_xinfo(by_lower)",
    "PRAGMA foreign_key_list(notes)",
    "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name",
    "SELECT name, type, ncol, wr, strict FROM pragma_table_list ORDER BY schema, name",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = -3",
    "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id",
    "REINDEX",
    "PRAGMA integrity_check",
    "DROP TABLE words",
    "DROP VIEW grown",
];

#[test]
fn everything_is_as_in_sqlite() {
    for [begin, end] in [["", ""], ["BEGIN", "COMMIT"], ["SAVEPOINT s", "ROLLBACK TO s; RELEASE s"]] {
        let both = Both::new();
        both.sqlite.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        both.run_all(begin);
        both.run_all(SCHEMA);
        for statement in STATEMENTS {
            both.run(statement);
        }
        both.run_all(end);
        both.run("SELECT type, name, sql FROM sqlite_schema ORDER BY name");
        both.run("SELECT * FROM persons ORDER BY id");
    }
}

#[test]
fn a_table_with_rows_of_a_query_has_parameters() {
    let (_, connection) = open();
    let mut create = connection.prepare("CREATE TABLE t AS SELECT ?1 AS a, ?2 AS b").unwrap();
    assert_eq!(create.parameter_count(), 2);
    create.execute(&[1.into(), "x".to_owned().into()]).unwrap();
    assert_eq!(text(&connection, "SELECT * FROM t"), "1|x");
}

/// A typed table and one of SQLite's, described side by side, with a name that only one of them has.
#[test]
fn both_kinds_are_described_and_have_names_of_their_own() {
    let sql = typed::Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection.execute_batch("CREATE TABLE seen(id INTEGER PRIMARY KEY, a TEXT)").unwrap();
    connection.execute_batch("CREATE INDEX by_a ON seen(a)").unwrap();
    let own = sql.connect().unwrap();
    let own = &*own;
    own.execute_batch(
        "CREATE TABLE made(x INT, y AS (x + 1)); CREATE VIEW v AS SELECT a, x FROM seen, made;
         CREATE TRIGGER t AFTER INSERT ON made BEGIN INSERT INTO seen VALUES (new.x, 'by trigger'); END;
         INSERT INTO made VALUES (5)",
    )
    .unwrap();
    for connection in [&connection, own] {
        assert_eq!(text(connection, "SELECT * FROM v"), "by trigger|5");
        let listed = "SELECT type, name FROM sqlite_schema ORDER BY name";
        assert_eq!(text(connection, listed), "index|by_a table|made table|seen trigger|t view|v");
        assert_eq!(text(connection, "SELECT name, hidden FROM pragma_table_xinfo('made')"), "x|0 y|2");
        assert_eq!(text(connection, "SELECT name FROM pragma_index_list('seen')"), "by_a");
        let columns = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name, 'main') c
            WHERE m.type IN ('table', 'view') ORDER BY 1, 2";
        assert_eq!(text(connection, columns), "made|x seen|a seen|id v|a v|x");
        let tables =
            "SELECT schema, name, type FROM pragma_table_list WHERE name NOT LIKE 'sqlite%' ORDER BY name";
        assert_eq!(text(connection, tables), "main|made|table main|seen|table main|v|view");
        assert_eq!(text(connection, "PRAGMA main.table_list(made)"), "main|made|table|2|0|0");
        let all = connection.tables().unwrap();
        let names: Vec<_> = all.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["made", "seen", "v"]);
        assert_eq!(all[0].create, "CREATE TABLE made(x INT, y AS (x + 1))");
        assert_eq!((all[0].columns.len(), all[0].triggers.len(), all[1].indexes.len()), (2, 1, 1));
    }
    for within in ["", "BEGIN"] {
        for statement in [
            "CREATE TABLE Seen(a)",
            "CREATE TABLE seen AS SELECT 1",
            "CREATE TABLE by_a(x)",
            "CREATE VIEW SEEN AS SELECT 1",
            "CREATE VIRTUAL TABLE seen USING fts5(a)",
        ] {
            own.execute_batch(within).unwrap();
            let error = own.execute(statement, &[]).expect_err(statement);
            assert!(error.message().contains("already"), "{statement}: {error}");
            own.execute_batch(if within.is_empty() { "" } else { "COMMIT" }).unwrap();
        }
    }
    own.execute("CREATE TABLE IF NOT EXISTS seen(other)", &[]).unwrap();
    own.execute("CREATE TABLE IF NOT EXISTS main.made(other)", &[]).unwrap();
    assert_eq!(text(own, "SELECT name FROM pragma_table_info('seen')"), "id a");
    // A temporary table of that name is described instead of the typed one.
    own.execute_batch("CREATE TEMP TABLE seen(mine)").unwrap();
    assert_eq!(text(own, "PRAGMA table_info(seen)"), "0|mine||0||0");
    assert_eq!(text(own, "SELECT name FROM pragma_table_info('seen', 'main')"), "id a");
}

/// A connection that knows a typed table notices that the name is that of a table of SQLite's now.
#[test]
fn a_name_can_pass_from_a_typed_table_to_one_of_sqlites() {
    let sql = typed::Sql::new(crate::support::database());
    let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b DEFAULT 'typed')").unwrap();
    let insert = "INSERT INTO t(a) VALUES (1) RETURNING b";
    let mut held = one.prepare(insert).unwrap();
    assert_eq!(text(&one, "INSERT INTO t(a) VALUES (7) RETURNING b"), "typed");
    two.execute("DROP TABLE t", &[]).unwrap();
    (*two).execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b DEFAULT 'own', c AS (b || '!'))").unwrap();
    {
        let mut rows = held.query(&[]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0).as_str().unwrap(), "own");
    }
    assert_eq!(text(&one, "INSERT INTO t(a) VALUES (2) RETURNING c"), "own!");
    assert_eq!(text(&one, "SELECT name FROM sqlite_schema"), "t");
}

/// Tables of both kinds, in one file. `VACUUM INTO` copies those of SQLite alone, and is refused beside others.
#[test]
fn an_export_has_both_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let sql = typed::Sql::new(crate::support::database());
    let own = sql.connect().unwrap();
    (*own).execute_batch(SCHEMA).unwrap();
    for statement in &STATEMENTS[..23] {
        // Some of them fail.
        let _ = (*own).execute(statement, &[]);
    }
    own.execute_batch("PRAGMA user_version = 12").unwrap();
    let (copy, both) = (dir.path().join("copy.db"), dir.path().join("both.db"));
    own.execute(&format!("VACUUM INTO '{}'", copy.display()), &[]).unwrap();
    assert_ne!(own.execute_batch("VACUUM").is_ok(), is_over_a_store(), "a store maintains itself");
    own.execute_batch("CREATE TABLE seen(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO seen VALUES (1, 'x')")
        .unwrap();
    let error = own.execute("VACUUM INTO 'nowhere.db'", &[]).unwrap_err();
    assert!(error.message().contains("typed tables"), "{error}");
    let report = pando_sql::export_sqlite(&sql, &both, |_| {}).unwrap();
    assert_eq!(report.left_out, [""; 0]);
    let dump = |file: &std::path::Path, extra: &str| {
        let sqlite = rusqlite::Connection::open(file).unwrap();
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = sqlite.prepare(sql).unwrap();
            let count = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                Ok((0..count).map(|at| format!("{:?}", row.get::<_, Value>(at).unwrap())).collect())
            };
            statement.query_map([], row).unwrap().map(Result::unwrap).collect()
        };
        assert_eq!(texts("PRAGMA integrity_check"), ["Text(\"ok\")"]);
        let of = format!("SELECT type, name, sql FROM sqlite_schema WHERE name <> '{extra}' ORDER BY 1, 2");
        let mut all = texts(&of);
        for query in [
            "SELECT * FROM people ORDER BY id",
            "SELECT * FROM notes ORDER BY person",
            "SELECT * FROM log ORDER BY id",
            "SELECT * FROM sqlite_sequence",
            "SELECT rowid, * FROM words ORDER BY word",
            "SELECT word FROM words('fruit') ORDER BY word",
            "SELECT * FROM places",
            "SELECT rowid, * FROM loose ORDER BY rowid",
            "PRAGMA user_version",
        ] {
            all.extend(texts(query));
        }
        all
    };
    let copied = dump(&copy, "");
    assert!(copied.len() > 40, "{copied:?}");
    assert_eq!(dump(&both, "seen"), copied);
    let sqlite = rusqlite::Connection::open(&both).unwrap();
    let a: String = sqlite.query_row("SELECT a FROM seen", [], |row| row.get(0)).unwrap();
    assert_eq!(a, "x");
    // The triggers are there, and work.
    sqlite.execute("INSERT INTO people(name, born) VALUES ('new', 1990)", []).unwrap();
    let logged: String =
        sqlite.query_row("SELECT what FROM log ORDER BY id DESC", [], |row| row.get(0)).unwrap();
    assert_eq!(logged, "new");
}

#[test]
fn a_confined_connection_makes_views_and_triggers_and_no_virtual_tables() {
    let (sql, own) = open();
    own.execute_batch("CREATE VIRTUAL TABLE words USING fts5(word); INSERT INTO words VALUES ('apple pie')")
        .unwrap();
    let mut confined = sql.connect().unwrap();
    confined.confine(Confines::default(), || false).unwrap();
    confined
        .execute_batch(
            "CREATE TABLE t(a); CREATE VIEW v AS SELECT a FROM t;
             CREATE TRIGGER r AFTER INSERT ON t WHEN new.a < 3 BEGIN INSERT INTO t VALUES (new.a + 10); END;
             INSERT INTO t VALUES (1); PRAGMA user_version = 3",
        )
        .unwrap();
    assert_eq!(text(&confined, "SELECT a FROM v"), "1 11");
    assert_eq!(text(&confined, "SELECT word FROM words('pie')"), "apple pie");
    confined.execute("INSERT INTO words VALUES ('plum pie')", &[]).unwrap();
    assert_eq!(text(&confined, "SELECT count(*) FROM words('pie')"), "2");
    for statement in [
        "CREATE VIRTUAL TABLE w USING fts5(a)",
        "DROP TABLE words",
        "VACUUM",
        "VACUUM INTO '/nowhere/copy'",
        "PRAGMA integrity_check",
        "PRAGMA data_version",
        "PRAGMA schema_version = 1",
    ] {
        let error = confined.execute(statement, &[]).expect_err(statement);
        assert!(error.is_refused(), "{statement}: {error}");
    }
    // What a trigger hides is met when it runs.
    let hidden = "CREATE TRIGGER bad AFTER DELETE ON t BEGIN SELECT load_extension('x'); END";
    confined.execute(hidden, &[]).unwrap();
    assert!(confined.execute("DELETE FROM t", &[]).unwrap_err().is_refused());
}

/// Tables of attached databases have their names beside those of `main`, as in SQLite.
#[test]
fn attached_tables_of_the_same_name_are_told_apart() {
    let both = Both::new();
    for statement in [
        "CREATE TABLE t(a)",
        "INSERT INTO t VALUES ('mine')",
        "ATTACH ':memory:' AS o",
        "CREATE TABLE o.t(a)",
        "INSERT INTO o.t VALUES ('theirs')",
        "INSERT INTO t SELECT a FROM o.t",
        "SELECT (SELECT count(*) FROM main.t), (SELECT count(*) FROM o.t)",
        "DROP TABLE t",
        "SELECT * FROM t",
        "DETACH o",
        "SELECT * FROM t",
    ] {
        both.run(statement);
    }
}

/// A statement that was prepared for a table of SQLite's is about the typed table that has its name now.
#[test]
fn a_name_can_pass_from_a_table_of_sqlites_to_a_typed_one() {
    let sql = typed::Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER)").unwrap();
    let insert = "INSERT INTO v VALUES (1)";
    connection
        .execute_batch(&format!("BEGIN; CREATE TABLE v(a); {insert}; SELECT * FROM v; ROLLBACK"))
        .unwrap();
    connection.execute_batch("INSERT INTO t VALUES (1, 1); CREATE TABLE v(a)").unwrap();
    connection.execute_batch("SAVEPOINT s").unwrap();
    connection.execute(insert, &[]).unwrap();
    assert_eq!(text(&connection, "SELECT * FROM v"), "1");
    connection.execute_batch("RELEASE s").unwrap();
    let typed = rows::DynamicTable::all_created(&sql.database().snapshot().unwrap()).unwrap();
    assert_eq!(typed.iter().map(rows::DynamicTable::name).collect::<Vec<_>>(), ["t", "v"]);
}

/// Of a file, no index is taken over that has the name of another table or index.
#[test]
fn an_import_gives_no_index_a_name_that_is_taken() {
    let sql = typed::Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection
        .execute_batch("CREATE TABLE typed(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON typed(b)")
        .unwrap();
    (*connection).execute_batch("CREATE TABLE own(a); CREATE INDEX j ON own(a)").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    for name in ["I", "J", "typed", "Own"] {
        let sqlite = rusqlite::Connection::open(file.path()).unwrap();
        sqlite
            .execute_batch(&format!(
                "DROP TABLE IF EXISTS more; CREATE TABLE more(a TEXT, b UNIQUE);
                 CREATE INDEX {name} ON more(a)"
            ))
            .unwrap();
        drop(sqlite);
        let error = pando_sql::import_sqlite_typed(&sql, file.path(), |_| {}).unwrap_err();
        assert!(error.message().contains("already"), "{name}: {error}");
    }
    let sqlite = rusqlite::Connection::open(file.path()).unwrap();
    sqlite.execute_batch("DROP INDEX own; CREATE INDEX free ON more(a)").unwrap();
    drop(sqlite);
    pando_sql::import_sqlite_typed(&sql, file.path(), |_| {}).unwrap();
}

/// An export names what it leaves out, and succeeds.
#[test]
fn an_export_names_what_it_leaves_out() {
    let dir = tempfile::tempdir().unwrap();
    let db = pando::Database::builder().in_memory().unwrap();
    let sql = Sql::new(db.clone());
    let connection = sql.connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE gone(id INTEGER PRIMARY KEY AUTOINCREMENT); DROP TABLE gone;
             INSERT INTO sqlite_sequence VALUES ('gone', 7);
             CREATE TABLE t(a UNIQUE, b); INSERT INTO t VALUES (1, 2); ANALYZE",
        )
        .unwrap();
    let definition =
        rows::Definition::new("U").column(rows::Column::new("a", rows::ColumnType::Int)).key(["a"]);
    db.write(|tx| rows::DynamicTable::create(tx, &definition)).unwrap();
    // Not by this crate, which refuses the name.
    pando_sqlite::Connection::open(&db).unwrap().execute("CREATE TABLE u(a)").unwrap();
    let report = pando_sql::export_sqlite(&sql, dir.path().join("copy.db"), |_| {}).unwrap();
    assert!(report.left_out.iter().any(|what| what.contains("sqlite_stat1")), "{report:?}");
    assert!(report.left_out.iter().any(|what| what.contains("typed table \"U\"")), "{report:?}");
    assert_eq!(report.rows, 1);
}

/// `changes()` counts rows that the program has changed, and what says that it may have nothing to do succeeds where
/// nothing can be written.
#[test]
fn definitions_change_no_rows_and_may_have_nothing_to_do() {
    for both in [crate::support::Both::new(), crate::support::Both::typed()] {
        both.run_all("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
        for definition in [
            "CREATE VIEW v AS SELECT 1",
            "CREATE TABLE IF NOT EXISTS t(a)",
            "CREATE INDEX i ON t(b)",
            "ALTER TABLE t ADD COLUMN c",
            "DROP INDEX i",
            "INSERT INTO t(a) VALUES (4), (5) RETURNING a",
            "CREATE VIEW w AS SELECT 2",
            "CREATE TRIGGER r INSTEAD OF INSERT ON w BEGIN SELECT 1; END",
        ] {
            both.run_all(definition);
            both.run_all("SELECT changes()");
        }
        both.run_all("CREATE INDEX i ON t(b)");
        both.ours.set_read_only(true);
        for statement in [
            "CREATE TABLE IF NOT EXISTS T(a)",
            "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
            "CREATE INDEX IF NOT EXISTS I ON t(b)",
            "CREATE TRIGGER IF NOT EXISTS R AFTER INSERT ON w BEGIN SELECT 1; END",
            "DROP TABLE IF EXISTS nowhere",
            "DROP INDEX IF EXISTS nowhere",
        ] {
            (*both.ours).execute(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        for statement in [
            "CREATE TABLE IF NOT EXISTS u(a)",
            "CREATE INDEX IF NOT EXISTS j ON t(b)",
            "DROP TABLE IF EXISTS t",
            "DROP INDEX IF EXISTS i",
        ] {
            assert_eq!((*both.ours).execute(statement, &[]).unwrap_err().code() & 0xff, 8, "{statement}");
        }
    }
}

/// A name that the database and an attached one have is refused in the query of `CREATE TABLE ... AS`, too.
#[test]
fn a_name_that_an_attached_database_also_has_is_ambiguous_in_a_new_table() {
    let sql = typed::Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection
        .execute_batch("CREATE TABLE seen(a INTEGER PRIMARY KEY); INSERT INTO seen VALUES (1)")
        .unwrap();
    (*connection)
        .execute_batch("ATTACH ':memory:' AS o; CREATE TABLE o.seen(a); CREATE TABLE o.x(a)")
        .unwrap();
    let error = (*connection).execute("CREATE TABLE x AS SELECT * FROM seen", &[]).unwrap_err();
    assert!(error.message().contains("ambiguous"), "{error}");
    (*connection).execute("CREATE TABLE x AS SELECT * FROM main.seen", &[]).unwrap();
    assert_eq!(connection.query("SELECT a FROM main.x", &[]).unwrap(), [[1.into()]]);
}
