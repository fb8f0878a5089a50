//! Names that pass from one table to another, or that this crate uses itself.

use pando::Database;
use pando_sql::{Connection, Sql, Value};
use rows::{Column, ColumnType, Definition, DynamicTable};

fn open() -> Sql {
    Sql::new(Database::builder().in_memory().unwrap())
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
