//! What is written is read back as the same rows, types and nulls included, and types of other programs are read or
//! rejected by name.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Int8Array, LargeStringArray,
    RecordBatch, StringViewArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use pando::Database;
use pando_arrow::{Batches, Format, RecordBatches, RowBatches, Shape, Writer};
use proptest::prelude::*;
use rows::{
    Collation, Column, ColumnType, Definition, DynamicRow, DynamicTable, Import, ImportFailure, KeyRange,
    Part, Value,
};
use std::fs;
use std::sync::Arc;

const FORMATS: [Format; 3] = [Format::Parquet, Format::ArrowFile, Format::ArrowStream];
const COLUMNS: &str = "id int key, flag bool null, n uint null, x float null, at timestamp null, \
                       name text null, token uuid null, raw bytes null, doc json null, other any null";

fn table(db: &Database, columns: &str) -> DynamicTable {
    db.write(|tx| DynamicTable::create(tx, &Definition::parse("t", columns)?)).unwrap()
}

fn rows(db: &Database, table: &DynamicTable) -> Vec<DynamicRow> {
    let snapshot = db.snapshot().unwrap();
    table.scan(&snapshot, &KeyRange::all()).unwrap().collect::<pando::Result<_>>().unwrap()
}

fn write(db: &Database, table: &DynamicTable, format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format, Shape::of_table(table)).unwrap();
    rows(db, table).iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap()
}

/// Opens a file with these bytes, as the command does.
fn open(bytes: &[u8]) -> pando::Result<Batches<'static>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, bytes).unwrap();
    Batches::open(&path)
}

fn import(
    db: &Database,
    batches: Batches<'_>,
    definition: Option<&Definition>,
) -> Result<u64, ImportFailure> {
    let import = Import { definition, ..Import::into("t", db.transaction_options()) };
    import.run(db, &mut RowBatches::new(batches), |_| {}).map(|imported| imported.rows)
}

/// A value of each of these types, or null; the ones of `COLUMNS` after the key.
fn values() -> impl Strategy<Value = Vec<Value<'static>>> {
    let float = prop_oneof![any::<f64>(), Just(f64::NAN), Just(-0.0), Just(f64::INFINITY)];
    let maybe = |value: BoxedStrategy<Value<'static>>| prop_oneof![1 => Just(Value::Null), 3 => value];
    let other = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e9..1e9).prop_map(|x: f64| Value::Float(x + 0.5)),
        any::<i32>().prop_map(|us| Value::Timestamp(us.into())),
        "\\PC{0,8}".prop_map(Value::from),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any::<Vec<u8>>().prop_map(Value::from),
    ];
    let doc = prop_oneof![Just("{\"a\": [1, null]}"), Just("[]"), Just("7")];
    (
        maybe(any::<bool>().prop_map(Value::Bool).boxed()),
        maybe(any::<u64>().prop_map(Value::UInt).boxed()),
        maybe(float.prop_map(Value::Float).boxed()),
        maybe((-1i64 << 50..1 << 50).prop_map(Value::Timestamp).boxed()),
        maybe("\\PC{0,20}".prop_map(Value::from).boxed()),
        maybe(any::<[u8; 16]>().prop_map(Value::Uuid).boxed()),
        maybe(any::<Vec<u8>>().prop_map(Value::from).boxed()),
        maybe(doc.prop_map(|text| Value::Json(text.into())).boxed()),
        maybe(other.boxed()),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i)| vec![a, b, c, d, e, f, g, h, i])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_written_makes_the_same_table(of_rows in prop::collection::vec(values(), 0..60)) {
        let db = Database::builder().in_memory().unwrap();
        let from = table(&db, COLUMNS);
        db.write(|tx| {
            of_rows.iter().enumerate().try_for_each(|(id, row)| {
                from.insert(tx, &[vec![Value::Int(id as i64 - 7)], row.clone()].concat())
            })
        }).unwrap();
        for format in FORMATS {
            let file = write(&db, &from, format);
            let other = Database::builder().in_memory().unwrap();
            let batches = open(&file).unwrap();
            let definition = RowBatches::new(open(&file).unwrap()).definition("t").unwrap();
            import(&other, batches, definition.as_ref()).unwrap();
            let to = DynamicTable::expect(&other.snapshot().unwrap(), "t").unwrap();
            let kinds = |table: &DynamicTable| -> Vec<_> {
                let columns = table.schema().columns();
                let of = |column: &rows::Column| {
                    (column.name().to_owned(), column.column_type(), column.is_nullable())
                };
                columns.map(of).collect()
            };
            prop_assert_eq!(kinds(&to), kinds(&from));
            prop_assert_eq!(format!("{:?}", rows(&other, &to)), format!("{:?}", rows(&db, &from)));
        }
    }
}

#[test]
fn the_key_is_the_same_with_its_order() {
    let db = Database::builder().in_memory().unwrap();
    let column = |name: &str, kind| Column::new(name, kind);
    let definition = Definition::new("t")
        .column(column("name", ColumnType::Text))
        .column(column("at", ColumnType::Timestamp))
        .column(column("n", ColumnType::Int).nullable())
        .key([Part::new("name").collation(Collation::NoCase), Part::new("at").descending()]);
    let from = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    db.write(|tx| {
        from.insert(tx, &[Value::from("B"), Value::Timestamp(1), Value::Null])?;
        from.insert(tx, &[Value::from("a"), Value::Timestamp(2), Value::Int(1)])
    })
    .unwrap();
    let file = write(&db, &from, Format::Parquet);
    let input = RowBatches::new(open(&file).unwrap());
    let definition = input.definition("t").unwrap().unwrap();
    let other = Database::builder().in_memory().unwrap();
    let to = other.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    assert_eq!(to.schema().key(), from.schema().key());
}

#[test]
fn large_tables_are_many_batches() {
    let db = Database::builder().in_memory().unwrap();
    let from = table(&db, "id int key, name text");
    db.write(|tx| {
        (0..30_000).try_for_each(|id| from.insert(tx, &[Value::Int(id), Value::from("x".repeat(100))]))
    })
    .unwrap();
    for format in FORMATS {
        let file = write(&db, &from, format);
        let batches: Vec<_> = open(&file).unwrap().collect::<pando::Result<_>>().unwrap();
        assert!(batches.len() >= 4, "{format:?}: {}", batches.len());
        assert!(batches.iter().all(|batch| batch.num_rows() <= 10_500), "{format:?}");
        let ids =
            batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(ids.eq(0..30_000), "{format:?}");
    }
}

#[test]
fn plain_records_keep_their_bytes() {
    for format in FORMATS {
        let mut writer = Writer::new(Vec::new(), format, Shape::of_records()).unwrap();
        let records: Vec<(Vec<u8>, Vec<u8>)> =
            (0..200u8).map(|n| (vec![n, 0xff], vec![n; n.into()])).collect();
        for (key, value) in &records {
            writer.row(&[Value::from(key.clone()), Value::from(value.clone())]).unwrap();
        }
        let file = writer.finish().unwrap();
        let read = RecordBatches::new(open(&file).unwrap(), "key", "value").unwrap();
        assert_eq!(read.collect::<pando::Result<Vec<_>>>().unwrap(), records);
        let absent = RecordBatches::new(open(&file).unwrap(), "id", "value").unwrap_err();
        assert!(absent.to_string().contains("key, value"), "{absent}");
    }
}

/// A stream of one batch with one column.
fn stream_of(name: &str, column: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("id", id(column.len())), (name, column)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn id(rows: usize) -> ArrayRef {
    Arc::new((0..rows as i64).map(Some).collect::<arrow_array::Int64Array>())
}

/// Imports a column into a table with a column `v` of the type `kind`. Returns its values.
fn read_as(kind: &str, column: ArrayRef) -> Result<Vec<Value<'static>>, String> {
    let db = Database::builder().in_memory().unwrap();
    let to = table(&db, &format!("id int key, v {kind} null"));
    let file = stream_of("v", column);
    import(&db, Batches::stream(&file[..]).unwrap(), None).map_err(|failure| failure.to_string())?;
    Ok(rows(&db, &to).into_iter().map(|mut row| row.remove(1)).collect())
}

#[test]
fn types_of_other_programs_are_read_exactly_or_rejected() {
    let null = || Value::Null;
    assert_eq!(
        read_as("int", Arc::new(Int8Array::from(vec![Some(-3), None]))),
        Ok(vec![Value::Int(-3), null()])
    );
    assert_eq!(read_as("uint", Arc::new(Int8Array::from(vec![3]))), Ok(vec![Value::UInt(3)]));
    assert_eq!(read_as("float", Arc::new(Float32Array::from(vec![0.5]))), Ok(vec![Value::Float(0.5)]));
    let text = || Ok(vec![Value::from("é"), null()]);
    assert_eq!(read_as("text", Arc::new(LargeStringArray::from(vec![Some("é"), None]))), text());
    assert_eq!(read_as("text", Arc::new(StringViewArray::from(vec![Some("é"), None]))), text());
    let dictionary: DictionaryArray<arrow_array::types::Int32Type> = [Some("é"), None].into_iter().collect();
    assert_eq!(read_as("text", Arc::new(dictionary)), text());
    assert_eq!(
        read_as("timestamp", Arc::new(Date32Array::from(vec![-1]))),
        Ok(vec![Value::Timestamp(-86_400_000_000)])
    );
    let ms = TimestampMillisecondArray::from(vec![1500]).with_timezone("Europe/Berlin");
    assert_eq!(read_as("timestamp", Arc::new(ms)), Ok(vec![Value::Timestamp(1_500_000)]));
    assert_eq!(
        read_as("timestamp", Arc::new(TimestampNanosecondArray::from(vec![-2000]))),
        Ok(vec![Value::Timestamp(-2)])
    );
    let refused = [
        read_as("timestamp", Arc::new(TimestampNanosecondArray::from(vec![1]))),
        read_as("timestamp", Arc::new(TimestampMillisecondArray::from(vec![i64::MAX]))),
        read_as("int", Arc::new(UInt64Array::from(vec![u64::MAX]))),
        read_as("uint", Arc::new(Int8Array::from(vec![-1]))),
        read_as("text", Arc::new(Int8Array::from(vec![1]))),
        read_as("uuid", Arc::new(LargeStringArray::from(vec!["no uuid"]))),
        read_as("json", Arc::new(LargeStringArray::from(vec!["{"]))),
        read_as("json", Arc::new(LargeStringArray::from(vec![""]))),
        read_as("any", Arc::new(Decimal128Array::from(vec![1]))),
    ];
    for refused in refused {
        let message = refused.unwrap_err();
        assert!(message.contains("row 1") && message.contains("\"v\""), "{message}");
    }
}

#[test]
fn columns_are_found_by_name_and_a_missing_one_has_its_default() {
    let db = Database::builder().in_memory().unwrap();
    let to = table(&db, "v text default none, id int key, n int null");
    let file = stream_of("n", Arc::new(Int8Array::from(vec![5])));
    import(&db, Batches::stream(&file[..]).unwrap(), None).unwrap();
    assert_eq!(rows(&db, &to), [vec![Value::from("none"), Value::Int(0), Value::Int(5)]]);
    let file = stream_of("unknown", Arc::new(Int8Array::from(vec![5])));
    let failure = import(&db, Batches::stream(&file[..]).unwrap(), None).unwrap_err().to_string();
    assert!(failure.contains("no column \"unknown\""), "{failure}");
    let db = Database::builder().in_memory().unwrap();
    table(&db, "id int key, needed int");
    let file = stream_of("id2", Arc::new(Int8Array::from(vec![5])));
    assert!(import(&db, Batches::stream(&file[..]).unwrap(), None).is_err());
}

/// The first of two columns would be taken without a word.
#[test]
fn two_columns_of_one_name_are_refused() {
    let db = Database::builder().in_memory().unwrap();
    table(&db, "id int key, n int null");
    let number = |n| -> ArrayRef { Arc::new(Int8Array::from(vec![n])) };
    let batch = RecordBatch::try_from_iter([("id", id(1)), ("n", number(1)), ("n", number(2))]).unwrap();
    for format in ["arrow", "parquet"] {
        let failure = import(&db, open(&file_of(&batch, format)).unwrap(), None).unwrap_err().to_string();
        assert!(failure.contains("column \"n\" appears twice"), "{format}: {failure}");
    }
    let text = |text| -> ArrayRef { Arc::new(LargeStringArray::from(vec![text])) };
    let columns = [("k", text("a")), ("v", text("b")), ("v", text("c")), ("w", text("d")), ("w", text("e"))];
    let file = file_of(&RecordBatch::try_from_iter(columns).unwrap(), "arrow");
    let refused = RecordBatches::new(open(&file).unwrap(), "k", "v").unwrap_err().to_string();
    assert!(refused.contains("column \"v\" appears twice"), "{refused}");
}

/// A file with this batch.
fn file_of(batch: &RecordBatch, format: &str) -> Vec<u8> {
    if format == "parquet" {
        let mut file = Vec::new();
        let mut writer = parquet::arrow::ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        return file;
    }
    assert_eq!(format, "arrow");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_row_that_does_not_fit_is_refused() {
    let mut writer = Writer::new(Vec::new(), Format::ArrowStream, Shape::of_records()).unwrap();
    assert!(writer.row(&[Value::from(vec![1u8])]).is_err());
    assert!(writer.row(&[Value::Int(1), Value::Int(2)]).is_err());
}
