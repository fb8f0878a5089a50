//! Columns of type *any*, which have the JSON of each value, are read into columns of all types.

use pando::Database;
use pando_arrow::{Batches, Format, RecordBatches, RowBatches, Shape, Writer};
use rows::{ColumnType, Definition, DynamicRow, DynamicTable, Import, KeyRange, Value};

/// A stream with a column `v` of type *any*, of which each row has one of the values.
fn any_file(values: &[Value<'_>]) -> Vec<u8> {
    let shape = Shape::of_columns([("id", ColumnType::Int, false), ("v", ColumnType::Any, true)]);
    let mut writer = Writer::new(Vec::new(), Format::ArrowStream, shape).unwrap();
    for (id, value) in values.iter().enumerate() {
        writer.row(&[Value::Int(id as i64), value.clone()]).unwrap();
    }
    writer.finish().unwrap()
}

/// Imports such a column into one of the type `kind`. Returns its values.
fn any_as(kind: &str, values: &[Value<'_>]) -> Result<Vec<Value<'static>>, String> {
    let file = any_file(values);
    let db = Database::builder().in_memory().unwrap();
    let columns = format!("id int key, v {kind} null");
    let to = db.write(|tx| DynamicTable::create(tx, &Definition::parse("t", &columns)?)).unwrap();
    let mut input = RowBatches::new(Batches::stream(&file[..]).unwrap());
    let import = Import::into("t", db.transaction_options());
    import.run(&db, &mut input, |_| {}).map_err(|failure| failure.to_string())?;
    let rows: Vec<DynamicRow> =
        to.scan(&db.snapshot().unwrap(), &KeyRange::all()).unwrap().collect::<pando::Result<_>>().unwrap();
    Ok(rows.into_iter().map(|mut row| row.remove(1)).collect())
}

#[test]
fn values_of_any_type_become_those_of_the_column() {
    let text = || Value::from("Ann \"quoted\"");
    let same = [
        ("text", text()),
        ("int", Value::Int(-3)),
        ("uint", Value::UInt(u64::MAX)),
        ("float", Value::Float(0.5)),
        ("float", Value::Float(f64::INFINITY)),
        ("bool", Value::Bool(true)),
        ("timestamp", Value::Timestamp(1_500_000)),
        ("uuid", Value::Uuid([7; 16])),
        ("bytes", Value::from(vec![0u8, 255])),
    ];
    for (kind, value) in same {
        for kind in [kind, "any"] {
            let wanted = Ok(vec![value.clone(), Value::Null]);
            assert_eq!(any_as(kind, &[value.clone(), Value::Null]), wanted, "{kind}");
        }
    }
    assert_eq!(any_as("float", &[Value::Int(3)]), Ok(vec![Value::Float(3.0)]));
    assert_eq!(any_as("json", &[text()]), Ok(vec![Value::Json("\"Ann \\\"quoted\\\"\"".into())]));
    for (kind, value) in
        [("text", Value::Int(7)), ("int", text()), ("uint", Value::Int(-1)), ("bytes", text())]
    {
        let message = any_as(kind, &[Value::Null, value]).unwrap_err();
        assert!(message.contains("row 2, column \"v\""), "{kind}: {message}");
    }
}

#[test]
fn records_have_the_text_of_values_of_any_type() {
    let file = any_file(&[Value::from("Ann"), Value::from(vec![0xffu8]), Value::Int(7)]);
    let records = RecordBatches::new(Batches::stream(&file[..]).unwrap(), "v", "v").unwrap();
    let keys: Vec<Vec<u8>> = records.map(|record| record.unwrap().0).collect();
    assert_eq!(keys, [b"Ann".to_vec(), vec![0xff], b"7".to_vec()]);
}
