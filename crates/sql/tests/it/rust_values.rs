//! Values that only Rust code can store, and that SQL shows as others: neither a key nor an index changes a result.

use pando_sql::{Connection, Sql, Value};
use rows::{Column, ColumnType, Definition, DynamicTable, IndexDefinition, Part, Value as RowValue};

type Row = Vec<RowValue<'static>>;

/// Returns a connection to a new database with the table `t`, and with `bare`: the same rows, without the indexes.
/// Rows are numbered: their first column is `id`, the primary key of `bare`.
fn both(columns: &[Column], key: &[&str], indexes: &[IndexDefinition], rows: &[Row]) -> Connection {
    let db = pando::Database::builder().in_memory().unwrap();
    let definition = |name: &str| {
        let columns = [Column::new("id", ColumnType::Int)].into_iter().chain(columns.iter().cloned());
        columns.fold(Definition::new(name), Definition::column)
    };
    let indexed = definition("t").key(key.iter().map(|part| Part::new(*part)));
    let indexed = indexes.iter().cloned().fold(indexed, Definition::index);
    for definition in [indexed, definition("bare").key(["id"])] {
        db.write(|tx| {
            let table = DynamicTable::create(tx, &definition)?;
            rows.iter().zip(0i64..).try_for_each(|(row, id)| {
                let row: Row = std::iter::once(RowValue::Int(id)).chain(row.iter().cloned()).collect();
                table.insert(tx, &row)
            })
        })
        .unwrap();
    }
    Sql::new(db).connect().unwrap()
}

fn query(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    connection.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Checks that a query of `t` has the rows of the same query of `bare`, in any order unless it has one.
fn same(connection: &Connection, sql: &str) {
    let [mut found, mut wanted] = ["t", "bare"].map(|table| query(connection, &sql.replace("{t}", table)));
    if !sql.contains("ORDER BY") {
        for rows in [&mut found, &mut wanted] {
            rows.sort_by_key(|row| format!("{row:?}"));
        }
    }
    assert_eq!(found, wanted, "{sql}: {}", plan(connection, &sql.replace("{t}", "t")));
}

fn plan(connection: &Connection, sql: &str) -> String {
    format!("{:?}", query(connection, &format!("EXPLAIN QUERY PLAN {sql}")))
}

const LAST: &str = "18446744073709551615";

/// One float of SQL stands for several integers. What follows such a part is compared and sorted by SQLite.
#[test]
fn parts_after_a_large_unsigned_integer_are_compared() {
    let columns = [Column::new("u", ColumnType::UInt), Column::new("n", ColumnType::Int)];
    let rows = [(0, 9), (0, 1), (1, 5), (2, 1), (2, 7), (5000, 3)];
    let rows = rows.map(|(below, n)| vec![RowValue::UInt(u64::MAX - below), n.into()]);
    let connection = both(&columns, &["u", "n"], &[], &rows);
    for condition in ["n = 5", "n = 1", "n > 1", "n >= 1 AND n < 7", "n IN (1, 5)"] {
        same(&connection, &format!("SELECT id FROM {{t}} WHERE u = {LAST} AND {condition}"));
        same(
            &connection,
            &format!("SELECT id FROM {{t}} WHERE u = {LAST} AND {condition} ORDER BY n, id DESC"),
        );
    }
    for order in ["u, n, id", "n, id", "u DESC, n DESC, id", "u, id", "u DESC, id"] {
        same(&connection, &format!("SELECT id FROM {{t}} WHERE u = {LAST} ORDER BY {order}"));
        same(&connection, &format!("SELECT id FROM {{t}} ORDER BY {order}"));
    }
    let changed = connection.execute(&format!("DELETE FROM t WHERE u = {LAST} AND n = 5"), &[]).unwrap();
    assert_eq!(changed, 1);
    assert_eq!(query(&connection, "SELECT count(*) FROM t"), [[5.into()]]);
}

/// A key of one such part finds several rows.
#[test]
fn a_large_unsigned_integer_is_not_one_row() {
    let columns = [Column::new("u", ColumnType::UInt), Column::new("v", ColumnType::Text)];
    let rows = ["d", "b", "a", "c"].iter().zip(0..);
    let rows: Vec<Row> =
        rows.map(|(v, below)| vec![RowValue::UInt(u64::MAX - below), RowValue::from(*v)]).collect();
    let connection = both(&columns, &["u"], &[], &rows);
    for query in
        ["SELECT id FROM {t} WHERE u = 18446744073709551615 ORDER BY v", "SELECT id FROM {t} ORDER BY u, v"]
    {
        same(&connection, query);
    }
    assert_eq!(connection.execute(&format!("DELETE FROM t WHERE u = {LAST}"), &[]).unwrap(), 4);
    // The order of the integers is that of what SQL shows.
    assert!(!plan(&connection, "SELECT * FROM t ORDER BY u DESC LIMIT 1").contains("TEMP B-TREE"));
}

/// The rows of a table with every kind of value, each of them several times, and many integers.
fn any_values() -> Vec<RowValue<'static>> {
    let uuid = |last: u8| RowValue::Uuid(std::array::from_fn(|at| if at == 15 { last } else { 0 }));
    let bytes =
        |last: u8| RowValue::from((0..16).map(|at| if at == 15 { last } else { 0 }).collect::<Vec<u8>>());
    let mut values = vec![
        RowValue::Null,
        RowValue::Float(f64::NAN),
        RowValue::Float(f64::INFINITY),
        RowValue::Float(f64::NEG_INFINITY),
        RowValue::Bool(false),
        RowValue::Bool(true),
        RowValue::Int(0),
        RowValue::Int(1),
        RowValue::Int(-5),
        RowValue::Int(i64::MIN),
        RowValue::Float(1.0),
        RowValue::Float(0.5),
        RowValue::UInt(1),
        RowValue::UInt(u64::MAX),
        RowValue::UInt(u64::MAX - 1),
        RowValue::UInt(9_299_999_999_999_999_999),
        RowValue::UInt(1 << 63),
        RowValue::Timestamp(0),
        RowValue::Timestamp(1),
        RowValue::Timestamp(-5),
        RowValue::Timestamp(i64::MIN),
        RowValue::from("".to_owned()),
        RowValue::from("1".to_owned()),
        RowValue::from("a".to_owned()),
        RowValue::from("A".to_owned()),
        RowValue::from("b".to_owned()),
        uuid(0),
        uuid(7),
        bytes(7),
        bytes(9),
        RowValue::from(Vec::<u8>::new()),
    ];
    values.extend((100..2000).map(RowValue::Int));
    values
}

#[test]
fn an_index_over_values_of_any_type_changes_no_result() {
    let columns = [
        Column::new("v", ColumnType::Any).nullable(),
        Column::new("w", ColumnType::Any).nullable(),
        Column::new("n", ColumnType::Int),
    ];
    let values = any_values();
    let (special, count) = (31, values.len());
    let rows: Vec<Row> = (0..count)
        .map(|at| {
            let second = if at < special { (at * 7 + 3) % special } else { at };
            vec![values[at].clone(), values[second].clone(), RowValue::Int((at % 5) as i64)]
        })
        .collect();
    let indexes = [
        IndexDefinition::on("by_v", "v"),
        IndexDefinition::on("by_w_v", "w desc, v, n"),
        IndexDefinition::on("by_n_v", "n, v").unique(),
    ];
    // Values in that index are only unique with the number beside them if the rows are.
    let connection = both(&columns, &["id"], &indexes[..2], &rows);
    let operands = [
        "0",
        "1",
        "1.0",
        "0.5",
        "-5",
        "-5.5",
        "300",
        "-9223372036854775808",
        "18446744073709551615",
        "9223372036854775808",
        "9.3e18",
        "9e999",
        "-9e999",
        "''",
        "'1'",
        "'a'",
        "'A'",
        "x''",
        "x'00000000000000000000000000000007'",
        "x'00000000000000000000000000000008'",
        "NULL",
    ];
    for operand in operands {
        for op in ["=", "<", "<=", ">", ">=", "IS"] {
            same(&connection, &format!("SELECT id FROM {{t}} WHERE v {op} {operand}"));
            same(&connection, &format!("SELECT id FROM {{t}} WHERE w = {operand} AND v {op} {operand}"));
            same(&connection, &format!("SELECT id FROM {{t}} WHERE w IS {operand} AND v {op} 'a' AND n = 2"));
            same(
                &connection,
                &format!("SELECT id FROM {{t}} WHERE v {op} (SELECT {operand} FROM {{t}} LIMIT 1)"),
            );
        }
        same(&connection, &format!("SELECT id FROM {{t}} WHERE w = {operand} ORDER BY v, id"));
        same(&connection, &format!("SELECT id FROM {{t}} WHERE v IN ({operand}, 1, 'b')"));
        same(&connection, &format!("SELECT id FROM {{t}} WHERE v > {operand} AND v <= 'a'"));
        same(&connection, &format!("SELECT id FROM {{t}} WHERE v >= -5 AND v < {operand}"));
    }
    for rest in [
        "WHERE v IS NULL",
        "WHERE v IS NOT NULL ORDER BY v, id LIMIT 3",
        "ORDER BY v, id LIMIT 6",
        "ORDER BY v DESC, id LIMIT 6",
        "ORDER BY w DESC, v, id LIMIT 9",
    ] {
        same(&connection, &format!("SELECT id FROM {{t}} {rest}"));
    }
    same(&connection, "SELECT max(v), min(v), count(DISTINCT v), count(v) FROM {t}");
    same(&connection, "SELECT v, count(*) FROM {t} GROUP BY v ORDER BY v");
    assert!(plan(&connection, "SELECT id FROM t WHERE v = 300").contains("INDEX by_v (v=?)"));
}

/// A key of any type: a number of SQL is the key of several rows.
#[test]
fn a_key_of_any_type_is_found_as_it_is_shown() {
    let columns = [Column::new("v", ColumnType::Any), Column::new("n", ColumnType::Int)];
    let mut values = any_values();
    values.retain(|value| !value.is_null() && !matches!(value, RowValue::Float(one) if *one == 1.0));
    values.retain(|value| *value != RowValue::UInt(1) || matches!(value, RowValue::Int(_)));
    let rows: Vec<Row> =
        values.iter().zip(0..).map(|(value, n)| vec![value.clone(), (n % 3).into()]).collect();
    let connection = both(&columns, &["v"], &[], &rows);
    for rest in [
        "WHERE v = 1 ORDER BY n DESC, id",
        "WHERE v = 0",
        "WHERE v IS NULL",
        "WHERE v = x'00000000000000000000000000000007'",
        "WHERE v < 2",
        "WHERE v > 'a'",
        "ORDER BY v, n, id LIMIT 9",
    ] {
        same(&connection, &format!("SELECT id FROM {{t}} {rest}"));
    }
    assert_eq!(connection.execute("DELETE FROM t WHERE v = 1", &[]).unwrap(), 3);
}

/// What is no number is shown as NULL, and is the last in an index.
#[test]
fn an_index_over_floats_has_nan_where_sql_has_null() {
    let columns = |is_nullable: bool| {
        let float = Column::new("f", ColumnType::Float);
        [if is_nullable { float.nullable() } else { float }, Column::new("n", ColumnType::Int)]
    };
    let index = IndexDefinition::on("by_f", "f, n");
    for is_nullable in [true, false] {
        let mut floats = vec![f64::NAN, 7.0, -1.5, f64::NAN, 0.0, -0.0];
        floats.extend((0..2000).map(|number| -f64::from(number)));
        let mut rows: Vec<Row> =
            floats.iter().zip(0..).map(|(f, n)| vec![RowValue::Float(*f), (n % 4).into()]).collect();
        if is_nullable {
            rows.push(vec![RowValue::Null, 3.into()]);
        }
        let connection = both(&columns(is_nullable), &["id"], std::slice::from_ref(&index), &rows);
        for rest in [
            "WHERE f IS NULL",
            "WHERE f IS NULL AND n = 3",
            "WHERE f IS NOT NULL AND f > -2",
            "WHERE f = 7",
            "WHERE f = 0 AND n >= 0 ORDER BY n, id",
            "WHERE f >= 0.0",
            "WHERE f < 8",
            "WHERE f BETWEEN -3 AND -1.0",
            "WHERE f IS 7.0 ORDER BY n",
            "ORDER BY f, id LIMIT 5",
            "ORDER BY f DESC, id LIMIT 5",
        ] {
            same(&connection, &format!("SELECT id FROM {{t}} {rest}"));
        }
        same(&connection, "SELECT max(f), min(f), count(f) FROM {t}");
        assert_eq!(query(&connection, "SELECT max(f) FROM t"), [[7.0.into()]]);
        let nulls = 2 + i64::from(is_nullable);
        assert_eq!(query(&connection, "SELECT count(*) FROM t WHERE f IS NULL"), [[nulls.into()]]);
        let parameter = connection.query("SELECT count(*) FROM t WHERE f IS ?", &[Value::Null]).unwrap();
        assert_eq!(parameter, [[nulls.into()]]);
        assert!(plan(&connection, "SELECT * FROM t WHERE f = 7").contains("INDEX by_f (f=?)"));
        assert!(plan(&connection, "SELECT * FROM t WHERE f > 6").contains("INDEX by_f (f>?)"));
    }
}

/// A parameter can be null where a part cannot.
#[test]
fn a_part_without_nulls_is_compared_with_null() {
    let columns = [Column::new("a", ColumnType::Int), Column::new("b", ColumnType::Text)];
    let rows: Vec<Row> = (0..200).map(|n| vec![n.into(), RowValue::from("x")]).collect();
    let connection = both(&columns, &["id"], &[IndexDefinition::on("by_a", "a")], &rows);
    for condition in ["a IS ?", "a = ?", "a < ?", "b IS ? AND a IS 3"] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        let found = connection.query(&sql, &[Value::Null]).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(found, [[0.into()]], "{sql}");
    }
}
