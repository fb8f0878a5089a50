//! Names that pass from one table to another, or that this crate uses itself.

use crate::support::is_over_a_store;
use pando_sql::{Connection, Sql, Value};
use rows::{Column, ColumnType, Definition, DynamicTable};

fn open() -> Sql {
    Sql::new(crate::support::database())
}

fn number(connection: &Connection, sql: &str) -> i64 {
    match connection.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))[..] {
        [ref row] => match row[..] {
            [Value::Integer(number)] => number,
            _ => panic!("{sql}: {row:?}"),
        },
        ref rows => panic!("{sql}: {rows:?}"),
    }
}

/// No name that a table can have is one that this crate uses itself.
#[test]
fn a_table_of_any_name_keeps_its_rows() {
    for name in ["pando_transaction", "pando_sqlite_schema", "pando_sqlite_table_info"] {
        let sql = open();
        let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
        one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").unwrap();
        one.execute(&format!("ALTER TABLE t RENAME TO {name}"), &[]).unwrap();
        let guard =
            format!("CREATE TRIGGER guard BEFORE DELETE ON {name} BEGIN SELECT raise(ABORT, 'guarded'); END");
        one.execute(&guard, &[]).unwrap();
        for connection in [&two, &one] {
            connection
                .execute_batch("CREATE TABLE x(a); CREATE TABLE IF NOT EXISTS x(a); DROP TABLE x")
                .unwrap();
        }
        typed_table(&sql, "seen");
        let count = format!("SELECT count(*) FROM {name}");
        assert_eq!(number(&two, &count), 2, "{name}");
        let listed = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
        assert_eq!(number(&two, listed), 2, "{name}");
        assert_eq!(two.query("PRAGMA table_info(seen)", &[]).unwrap().len(), 2, "{name}");
        // A typed table of such a name, too.
        one.execute_batch(&format!("DROP TABLE {name}; ALTER TABLE seen RENAME TO {name}")).unwrap();
        one.execute_batch(&format!("INSERT INTO {name} VALUES (1, 'x'); CREATE TABLE x(a)")).unwrap();
        let three = sql.connect().unwrap();
        assert_eq!(number(&three, &count), 1, "{name}");
        assert_eq!(number(&three, listed), 2, "{name}");
        one.execute_batch("CREATE TEMP TABLE pando_transaction(x); DROP TABLE x").unwrap();
    }
}

/// Those that it uses are refused, and hide nothing where Rust has given them to a table.
#[test]
fn names_of_this_crates_own_cannot_be_given() {
    let sql = open();
    let connection = sql.connect().unwrap();
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
    typed_table(&sql, "seen");
    for name in ["sqlite_pando_transaction", "sqlite_pando_schema"] {
        for table in ["t", "seen"] {
            let rename = format!("ALTER TABLE {table} RENAME TO {name}");
            let error = connection.execute(&rename, &[]).unwrap_err();
            assert!(error.message().contains("reserved"), "{error}");
        }
        typed_table(&sql, name);
        connection.execute_batch("CREATE TABLE x(a); DROP TABLE x").unwrap();
        let count = "SELECT count(*) FROM sqlite_schema WHERE name IN ('t', 'seen')";
        assert_eq!(number(&connection, count), 2);
    }
}

/// Makes a typed table with a default that SQL applies, as an import does.
fn typed_table(sql: &Sql, name: &str) {
    let definition = Definition::new(name)
        .column(Column::new("a", ColumnType::Int))
        .column(Column::new("b", ColumnType::Text).nullable())
        .key(["a"]);
    sql.database().write(|tx| DynamicTable::create(tx, &definition)).unwrap();
}

/// A typed table `t` as Rust makes it, with a default for SQL.
fn import_t(sql: &Sql) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sqlite = rusqlite::Connection::open(file.path()).unwrap();
    sqlite.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT DEFAULT 'typed')").unwrap();
    drop(sqlite);
    pando_sql::import_sqlite_typed(sql, file.path(), |_| {}).unwrap();
}

const INSERTS: [&str; 4] = [
    "INSERT INTO t(a) VALUES (?)",
    "INSERT INTO t(a) VALUES (?) RETURNING b",
    "INSERT INTO t(a) VALUES (?) ON CONFLICT DO NOTHING",
    "INSERT INTO t(a) SELECT ? FROM t WHERE false UNION ALL SELECT ?1",
];

/// A statement is about the table that has the name now, whichever connection has changed that, and however often the
/// statement has run before.
#[test]
fn statements_follow_a_name_from_sqlites_table_to_a_typed_one() {
    for insert in INSERTS {
        for drops_itself in [true, false] {
            for is_held in [true, false] {
                for within in ["", "BEGIN"] {
                    let what = format!("{insert}, {drops_itself}, {is_held}, {within:?}");
                    let sql = open();
                    let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
                    one.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b DEFAULT 'own')", &[]).unwrap();
                    let mut held = one.prepare(insert).unwrap();
                    held.execute(&[1.into()]).unwrap();
                    one.execute(insert, &[2.into()]).unwrap();
                    let dropping = if drops_itself { &one } else { &two };
                    dropping.execute("DROP TABLE t", &[]).unwrap();
                    import_t(&sql);
                    one.execute_batch(within).unwrap();
                    let done =
                        if is_held { held.execute(&[3.into()]) } else { one.execute(insert, &[3.into()]) };
                    done.unwrap_or_else(|error| panic!("{what}: {error}"));
                    one.execute(insert, &[4.into()]).unwrap_or_else(|error| panic!("{what}: {error}"));
                    let typed = "SELECT count(*) FROM t WHERE b = 'typed'";
                    assert_eq!(number(&one, typed), 2, "{what}");
                }
            }
        }
    }
}

/// The same after the connection has seen that no table has the name.
#[test]
fn statements_find_a_typed_table_that_was_made_after_they_failed() {
    for insert in INSERTS {
        let sql = open();
        let connection = sql.connect().unwrap();
        connection.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b DEFAULT 'own')", &[]).unwrap();
        let mut held = connection.prepare(insert).unwrap();
        held.execute(&[1.into()]).unwrap();
        connection.execute("DROP TABLE t", &[]).unwrap();
        connection.execute(insert, &[2.into()]).unwrap_err();
        held.execute(&[2.into()]).unwrap_err();
        import_t(&sql);
        held.execute(&[3.into()]).unwrap();
        connection.execute(insert, &[4.into()]).unwrap();
        assert_eq!(number(&connection, "SELECT count(*) FROM t WHERE b = 'typed'"), 2, "{insert}");
    }
}

/// The schema's number of a change that was undone is given to another change.
#[test]
fn a_change_that_was_undone_is_not_taken_for_the_next_one() {
    for undo in ["ROLLBACK", "ROLLBACK; BEGIN"] {
        for made in ["CREATE TABLE x(a)", "CREATE VIEW x AS SELECT 1", "DROP VIEW v"] {
            let sql = open();
            let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
            one.execute_batch("CREATE VIEW v AS SELECT 1").unwrap();
            import_t(&sql);
            one.execute("INSERT INTO t(a) VALUES (1)", &[]).unwrap();
            let insert = "INSERT INTO t(a) VALUES (2)";
            one.execute_batch(&format!("BEGIN; {made}; {insert}; {undo}")).unwrap();
            two.execute_batch("DROP TABLE t; CREATE TABLE t(a INTEGER PRIMARY KEY, b DEFAULT 'own')")
                .unwrap();
            one.execute(insert, &[]).unwrap_or_else(|error| panic!("{made}: {error}"));
            assert_eq!(number(&one, "SELECT count(*) FROM t WHERE b = 'own'"), 1, "{made}");
        }
    }
}

/// A description that is held shows the tables of both kinds, once there are any.
#[test]
fn held_descriptions_show_typed_tables_that_were_made_since() {
    let sql = open();
    let connection = sql.connect().unwrap();
    connection.execute("CREATE TABLE own(a)", &[]).unwrap();
    let questions = [
        "SELECT name FROM sqlite_schema WHERE type = 'table'",
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%'",
        "PRAGMA table_info('t')",
    ];
    let mut held = questions.map(|question| connection.prepare(question).unwrap());
    let mut counts = || {
        held.each_mut().map(|held| {
            let mut rows = held.query(&[]).unwrap();
            std::iter::from_fn(|| rows.next().unwrap().map(drop)).count()
        })
    };
    assert_eq!(counts(), [1, 1, 0]);
    import_t(&sql);
    assert_eq!(counts(), [2, 2, 2]);
    connection.execute_batch("DROP TABLE t").unwrap();
    assert_eq!(counts(), [1, 1, 0]);
}

/// A transaction that has expired can be ended, and the connection goes on.
#[test]
fn an_expired_transaction_can_be_ended() {
    if is_over_a_store() {
        return; // A store expires its transactions itself.
    }
    for (end, fails) in [("ROLLBACK", false), ("COMMIT", true), ("ROLLBACK TO s", true), ("/* */ END", true)]
    {
        for write in ["SELECT 1", "INSERT INTO t(a) VALUES (7)"] {
            for has_temporary in [false, true] {
                let sql = open();
                import_t(&sql);
                let connection = sql.connect().unwrap();
                if has_temporary {
                    connection.execute("CREATE TEMP TABLE mine(a)", &[]).unwrap();
                }
                connection.execute("INSERT INTO t(a) VALUES (1)", &[]).unwrap();
                connection.execute_batch(&format!("BEGIN; SAVEPOINT s; SELECT * FROM t; {write}")).unwrap();
                let readers = sql.database().native().unwrap().readers().unwrap();
                assert!(!readers.is_empty());
                for reader in readers {
                    sql.database().native().unwrap().expire_reader(reader.id).unwrap();
                }
                let error = connection.query("SELECT * FROM t", &[]).unwrap_err();
                assert!(error.message().contains("expired"), "{error}");
                let ended = connection.execute(end, &[]);
                assert!(ended.is_ok() || fails, "{end}: {ended:?}");
                if !connection.is_autocommit() {
                    connection.execute("ROLLBACK", &[]).unwrap();
                }
                assert!(connection.is_autocommit());
                assert_eq!(number(&connection, "SELECT count(*) FROM t"), 1, "{end}, {write}");
            }
        }
    }
}

/// The columns of a view over a typed table are those that the table has now.
#[test]
fn a_view_has_the_columns_that_its_table_has_now() {
    for temporary in ["", "TEMP"] {
        for knows_first in ["SELECT b FROM v", "SELECT a FROM v", "SELECT * FROM v"] {
            let sql = open();
            let definition = Definition::new("t").column(Column::new("id", ColumnType::Int));
            let definition = ["a", "b"].into_iter().fold(definition, |definition, name| {
                definition.column(Column::new(name, ColumnType::Text).nullable())
            });
            let made = |tx: &mut pando::any::AnyTransaction| {
                DynamicTable::create(tx, &definition.clone().key(["id"]))
            };
            sql.database().write(made).unwrap();
            let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
            one.execute_batch("INSERT INTO t VALUES (1, 'first', 'second')").unwrap();
            let view = format!("CREATE {temporary} VIEW v AS SELECT * FROM t");
            one.execute(&view, &[]).unwrap();
            if !temporary.is_empty() {
                two.execute(&view, &[]).unwrap();
            }
            let text = |connection: &Connection, query: &str| {
                connection.query(query, &[]).map(|rows| rows.concat()).map_err(|error| error.to_string())
            };
            let both = [&one, &two];
            let mut held = both.map(|connection| connection.prepare("SELECT b FROM v").unwrap());
            let mut held_texts = || {
                held.each_mut().map(|held| {
                    let mut rows = held.query(&[]).unwrap();
                    rows.next().unwrap().unwrap().get(0).as_str().unwrap().to_owned()
                })
            };
            assert_eq!(held_texts(), ["second", "second"]);
            both.iter().for_each(|connection| assert!(text(connection, knows_first).is_ok()));
            let table = || DynamicTable::expect(&sql.database().snapshot().unwrap(), "t").unwrap();
            sql.database().write(|tx| table().drop_column(tx, "a")).unwrap();
            assert_eq!(held_texts(), ["second", "second"]);
            for connection in both {
                assert!(text(connection, "SELECT a FROM v").unwrap_err().contains("no such column"));
                assert_eq!(text(connection, "SELECT b FROM v").unwrap(), ["second".to_owned().into()]);
                assert_eq!(text(connection, "SELECT * FROM v").unwrap().len(), 2);
            }
            sql.database().write(|tx| table().rename_column(tx, "b", "a")).unwrap();
            for connection in both {
                assert!(text(connection, "SELECT b FROM v").unwrap_err().contains("no such column"));
                assert_eq!(text(connection, "SELECT a FROM v").unwrap(), ["second".to_owned().into()]);
            }
            let more = Column::new("more", ColumnType::Text).nullable();
            sql.database().write(|tx| table().add_column(tx, more.clone())).unwrap();
            for connection in both {
                assert_eq!(text(connection, "SELECT more FROM v").unwrap(), [Value::Null]);
            }
        }
    }
}

/// A foreign key to a typed table is refused where it is made, and everything else goes on.
#[test]
fn a_foreign_key_of_sqlites_table_to_a_typed_one_is_refused() {
    let sql = open();
    let connection = sql.connect().unwrap();
    connection
        .execute_batch("CREATE TABLE own(a PRIMARY KEY); CREATE TABLE child(a REFERENCES own)")
        .unwrap();
    import_t(&sql);
    typed_table(&sql, "fruit");
    for within in ["", "BEGIN; "] {
        for statement in [
            "CREATE TABLE c(p REFERENCES fruit)",
            "CREATE TABLE c(p, FOREIGN KEY(p) REFERENCES \"Fruit\"(a) ON DELETE CASCADE)",
            "CREATE TABLE c(p REFERENCES t, q REFERENCES own)",
            "ALTER TABLE child ADD COLUMN p REFERENCES t(a)",
            "ALTER TABLE child ADD COLUMN p DEFAULT NULL /* */ REFERENCES FRUIT",
        ] {
            connection.execute_batch(within).unwrap();
            let error = connection.execute(statement, &[]).expect_err(statement);
            assert!(error.message().contains("not supported: a foreign key"), "{statement}: {error}");
            if !connection.is_autocommit() {
                connection.execute("COMMIT", &[]).unwrap();
            }
        }
    }
    connection.execute_batch("INSERT INTO own VALUES (1); INSERT INTO child VALUES (1)").unwrap();
    assert_eq!(number(&connection, "SELECT count(*) FROM pragma_table_info('child')"), 1);
    // One that names no table yet.
    connection.execute("CREATE TABLE later(p REFERENCES pear)", &[]).unwrap();
    let error = connection.execute("ALTER TABLE fruit RENAME TO pear", &[]).unwrap_err();
    assert!(error.message().contains("table later to pear"), "{error}");
    connection.execute("CREATE TABLE more(a REFERENCES own)", &[]).unwrap();
}

/// A view or a trigger that names a typed table keeps its meaning.
#[test]
fn a_typed_table_that_a_view_or_a_trigger_names_keeps_its_names() {
    for definition in [
        "CREATE VIEW v AS SELECT a, \"b\" FROM t",
        "CREATE TEMP VIEW v AS SELECT a, \"b\" FROM main.\"T\"",
        "CREATE TRIGGER v AFTER INSERT ON own BEGIN INSERT INTO t VALUES (new.a, 'x'); END",
    ] {
        let sql = open();
        import_t(&sql);
        let connection = sql.connect().unwrap();
        connection.execute_batch("CREATE TABLE own(a); INSERT INTO t VALUES (1, 'one')").unwrap();
        connection.execute(definition, &[]).unwrap();
        for change in
            ["ALTER TABLE t RENAME COLUMN b TO c", "ALTER TABLE t DROP COLUMN b", "ALTER TABLE t RENAME TO u"]
        {
            let error = connection.execute(change, &[]).expect_err(change);
            assert!(error.message().contains("names it; drop that first"), "{change}: {error}");
        }
        connection.execute("ALTER TABLE t ADD COLUMN more", &[]).unwrap();
        let kind = if definition.contains("VIEW") { "VIEW" } else { "TRIGGER" };
        connection.execute_batch(&format!("DROP {kind} v; ALTER TABLE t RENAME COLUMN b TO c")).unwrap();
        connection.execute_batch("ALTER TABLE t DROP COLUMN c; ALTER TABLE t RENAME TO u").unwrap();
        assert_eq!(number(&connection, "SELECT a FROM u"), 1);
    }
}
