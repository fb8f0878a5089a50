//! Definitions that two connections or programs make at once: of two that give one name, one alone succeeds.

use pando::{Database, Isolation, TransactionOptions};
use pando_sql::{Connection, Sql, Value};
use rows::{Column, ColumnType, Definition, DynamicTable};

const BOTH: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

fn fruit() -> Definition {
    Definition::new("fruit").column(Column::new("name", ColumnType::Text)).key(["name"])
}

fn connect(sql: &Sql, isolation: Isolation) -> Connection {
    let connection = sql.connect().unwrap();
    connection.set_transaction_options(TransactionOptions { isolation, ..Default::default() });
    connection
}

/// Each definition has the name `fruit`, for a table, a view or an index.
const DEFINITIONS: [&str; 4] = [
    "CREATE TABLE fruit(a)",
    "CREATE VIEW fruit AS SELECT 1",
    "CREATE TABLE fruit AS SELECT 1 AS a",
    "CREATE TABLE other(a); CREATE INDEX fruit ON other(a)",
];

#[test]
fn of_two_connections_that_make_one_name_one_succeeds() {
    for isolation in BOTH {
        for (first, second) in DEFINITIONS.iter().flat_map(|one| DEFINITIONS.map(|other| (*one, other))) {
            let sql = Sql::new(crate::support::database());
            let [one, two] = [connect(&sql, isolation), connect(&sql, isolation)];
            one.execute_batch(&format!("BEGIN; {first}")).unwrap();
            two.execute_batch(&format!("BEGIN; {second}")).unwrap();
            one.execute_batch("COMMIT").unwrap();
            let error = two.execute_batch("COMMIT").unwrap_err();
            assert!(error.is_conflict(), "{first}, {second}: {error}");
            if !two.is_autocommit() {
                two.execute_batch("ROLLBACK").unwrap();
            }
            let error = two.execute_batch(second).unwrap_err();
            assert!(error.message().contains("already"), "{first}, {second}: {error}");
            let checked = two.query("PRAGMA integrity_check", &[]).unwrap();
            assert_eq!(checked, [[Value::Text("ok".to_owned())]], "{first}, {second}");
        }
    }
}

#[test]
fn of_a_connection_and_a_program_that_make_one_name_one_succeeds() {
    for isolation in BOTH {
        let cases = [true, false].map(|is_empty| [(is_empty, false), (is_empty, true)]);
        for ((is_empty, is_sql_first), definition) in cases
            .as_flattened()
            .iter()
            .flat_map(|case| DEFINITIONS[..3].iter().map(move |definition| (*case, definition)))
        {
            let db = Database::builder().in_memory().unwrap();
            let sql = Sql::new(db.clone());
            let connection = connect(&sql, isolation);
            if !is_empty {
                connection.execute("CREATE TABLE other(a)", &[]).unwrap();
            }
            connection.execute_batch(&format!("BEGIN; {definition}")).unwrap();
            let mut tx =
                db.begin_with(&TransactionOptions { isolation, ..db.transaction_options() }).unwrap();
            DynamicTable::create(&mut tx, &fruit()).unwrap();
            let is_conflict = if is_sql_first {
                connection.execute_batch("COMMIT").unwrap();
                tx.commit().unwrap_err().kind() == pando::ErrorKind::Conflict
            } else {
                tx.commit().unwrap();
                connection.execute_batch("COMMIT").unwrap_err().is_conflict()
            };
            assert!(is_conflict, "{definition}, empty: {is_empty}, SQL first: {is_sql_first}, {isolation:?}");
        }
    }
}

/// The program can make a table whose name a foreign key has already. Rows that would refer to it are refused by name.
#[test]
fn rows_that_refer_to_a_table_of_the_program_are_refused() {
    for keyed in [true, false] {
        let db = Database::builder().in_memory().unwrap();
        let connection = Sql::new(db.clone()).connect().unwrap();
        connection
            .execute_batch("PRAGMA foreign_keys = ON; CREATE TABLE child(parent REFERENCES fruit)")
            .unwrap();
        let parent = match keyed {
            true => fruit(),
            false => Definition::new("fruit")
                .column(Column::new("id", ColumnType::Int))
                .column(Column::new("name", ColumnType::Text).nullable())
                .key(["id"]),
        };
        db.write(|tx| DynamicTable::create(tx, &parent)).unwrap();
        let error = connection.execute("INSERT INTO child VALUES ('plum')", &[]).unwrap_err();
        assert!(error.message().contains("foreign key"), "keyed: {keyed}: {error}");
    }
}
