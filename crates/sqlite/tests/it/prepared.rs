//! Prepared statements: parameters, descriptions, and those that a connection keeps.

use crate::support::{fresh, rows};
use pando_sqlite::{Value, ValueRef};

#[test]
fn a_statement_is_described_before_it_runs() {
    let connection = fresh();
    connection.execute("CREATE TABLE t(a VARCHAR(20), b)").expect("it runs");
    let select =
        connection.prepare("SELECT a, b, a || b AS c, :x, ?9 FROM t WHERE a = @y").expect("it is right");
    assert!(select.is_read_only() && !select.is_explain());
    let types: Vec<_> = (0..4).map(|at| select.declared_type(at)).collect();
    assert_eq!(types, [Some("VARCHAR(20)".into()), None, None, None]);
    assert_eq!(select.name(2).as_deref(), Some("c"));
    assert_eq!((select.name(5), select.declared_type(5)), (None, None));
    assert_eq!(select.parameters(), 10);
    assert_eq!((select.parameter_index("@y"), select.parameter_index(":z")), (Some(10), None));
    assert_eq!(select.parameter_index("nul\0"), None);
    assert_eq!((select.parameter_name(10).as_deref(), select.parameter_name(2)), (Some("@y"), None));

    let insert = connection.prepare("INSERT INTO t VALUES (1, 2) RETURNING a").expect("it is right");
    assert!(!insert.is_read_only());
    let plan = connection.prepare("EXPLAIN QUERY PLAN SELECT * FROM t").expect("it is right");
    assert!(plan.is_explain());
}

#[test]
fn values_are_bound_and_lent_as_they_are() {
    let connection = fresh();
    let mut statement = connection.prepare("SELECT ?, ?, ?, ?, ?, ?").expect("it is right");
    let values = [
        ValueRef::Text(b""),
        ValueRef::Blob(b""),
        ValueRef::Text(b"not UTF-8: \xff"),
        ValueRef::Blob(b"\0\x01"),
        ValueRef::Real(0.5),
    ];
    for (at, &value) in values.iter().enumerate() {
        statement.bind_ref(at + 1, value).expect("there is such a parameter");
    }
    assert!(statement.step().expect("it runs"));
    for (at, &value) in values.iter().enumerate() {
        assert_eq!(statement.value_ref(at), value);
    }
    assert_eq!((statement.value_ref(5), statement.value_ref(6)), (ValueRef::Null, ValueRef::Null));
    assert_eq!(statement.value(2), Value::Text("not UTF-8: \u{fffd}".into()));
    statement.reset().expect("it only reads");
    assert_eq!(statement.bind_ref(7, ValueRef::Null).expect_err("there is none").code, 25);
}

#[test]
fn kept_statements_begin_anew_and_survive_changes_of_definitions() {
    let connection = fresh();
    connection.execute("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 2)").expect("it runs");
    let query = "SELECT *, ? FROM t";
    let mut first = connection.prepare_kept(query).expect("it is right");
    first.bind(1, &Value::Integer(9)).expect("there is a parameter");
    assert!(first.step().expect("there is a row"));
    // It is in use, so this is another one.
    let mut second = connection.prepare_kept(query).expect("it is right");
    assert!(second.step().expect("there is a row"));
    drop(second);
    drop(first);
    assert!(!connection.is_in_transaction());
    connection.execute("ALTER TABLE t ADD COLUMN c DEFAULT 3").expect("no statement is running");

    let mut again = connection.prepare_kept(query).expect("it is right");
    assert!(again.step().expect("there is a row"));
    assert_eq!(again.times_prepared_again(), 1);
    let row: Vec<_> = (0..again.columns()).map(|at| again.value(at)).collect();
    assert_eq!(row, [Value::Integer(1), Value::Integer(2), Value::Integer(3), Value::Null]);
    drop(again);

    for number in 0..100 {
        let mut one = connection.prepare_kept(&format!("SELECT {number}")).expect("it is right");
        assert!(one.step().expect("there is a row"));
    }
    connection.flush_statements();
    connection.execute("DROP TABLE t").expect("it runs");
    assert!(connection.prepare_kept(query).is_err());
    assert!(rows(&connection, "SELECT * FROM sqlite_schema").is_empty());
}

#[test]
fn changes_are_counted() {
    let connection = fresh();
    let schema = "CREATE TABLE t(a); CREATE TABLE u(a);
        CREATE TRIGGER also AFTER INSERT ON t BEGIN INSERT INTO u VALUES (new.a); END";
    connection.execute(schema).expect("it runs");
    let before = connection.total_changes();
    connection.execute("INSERT INTO t VALUES (1), (2)").expect("it runs");
    assert_eq!((connection.changes(), connection.total_changes() - before), (2, 4));
    assert_eq!(connection.last_insert_rowid(), 2);
}

#[test]
fn lent_values_are_unbound_at_the_end() {
    let connection = fresh();
    let mut select = connection.prepare("SELECT ?1, ?2, ?3").expect("it is right");
    let row = |select: &mut pando_sqlite::Statement<'_>| {
        assert!(select.step().expect("there is a row"));
        let row: Vec<_> = (0..3).map(|at| select.value(at)).collect();
        select.reset().expect("it ends");
        row
    };
    let (text, blob) = (String::from("a text"), vec![0, 1, 2]);
    let lent = [ValueRef::Text(text.as_bytes()), ValueRef::Blob(&blob), ValueRef::Integer(7)];
    let seen = select.with_bound(lent, |bound| {
        // It can run again, and be left before its end.
        drop(bound.run());
        let mut rows = bound.run();
        let row = rows.next().expect("it runs").expect("there is a row");
        (row.value(0), row.value(1), row.value(2))
    });
    let expected = (Value::Text(text.clone()), Value::Blob(blob.clone()), Value::Integer(7));
    assert_eq!(seen.expect("there are so many parameters"), expected);
    drop((text, blob));
    assert_eq!(row(&mut select), [Value::Null, Value::Null, Value::Null]);

    // Those that were bound before the error, too.
    let text = String::from("another text");
    let too_many = std::iter::repeat_n(ValueRef::Text(text.as_bytes()), 4);
    assert!(select.with_bound(too_many, |_| unreachable!("there is no fourth parameter")).is_err());
    drop(text);
    assert_eq!(row(&mut select), [Value::Null, Value::Null, Value::Null]);
}
