//! The primary key in the metadata of a file.

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use pando::Database;
use pando_arrow::{Batches, Format, RowBatches, Shape, Writer};
use rows::{Collation, Column, ColumnType, Definition, DynamicTable, Part};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the primary key of the table that a file describes.
fn key_of(file: &[u8]) -> Result<Vec<Part>, String> {
    let input = RowBatches::new(Batches::stream(file).unwrap());
    let definition = input.definition("t").map_err(|error| error.to_string())?.unwrap();
    let db = Database::builder().in_memory().unwrap();
    let table = db.write(|tx| DynamicTable::create(tx, &definition)).map_err(|error| error.to_string())?;
    Ok(table.schema().key().to_vec())
}

#[test]
fn a_key_with_names_that_read_like_an_order_is_kept() {
    let names = ["a", "a desc", "a nocase", "a desc nocase"];
    let part = Part::new;
    for key in [
        vec![part("a desc")],
        vec![part("a").descending()],
        vec![part("a desc").descending(), part("a nocase"), part("a").collation(Collation::RTrim)],
        vec![part("a desc nocase"), part("a").descending().collation(Collation::NoCase)],
    ] {
        let columns = names.map(|name| Column::new(name, ColumnType::Text));
        let definition = columns.into_iter().fold(Definition::new("t"), Definition::column).key(key);
        let db = Database::builder().in_memory().unwrap();
        let from = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
        let file = Writer::new(Vec::new(), Format::ArrowStream, Shape::of_table(&from)).unwrap();
        assert_eq!(key_of(&file.finish().unwrap()).unwrap(), from.schema().key());
    }
}

/// A stream with a column `a`, whose metadata has this key.
fn file_with_key(key: &str) -> Vec<u8> {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let kind = HashMap::from([("pando.type".to_owned(), "int".to_owned())]);
    let fields = vec![batch.schema().field(0).clone().with_metadata(kind)];
    let schema = arrow_schema::Schema::new(fields)
        .with_metadata(HashMap::from([("pando.key".to_owned(), key.to_owned())]));
    StreamWriter::try_new(Vec::new(), &schema).unwrap().into_inner().unwrap()
}

#[test]
fn the_key_of_an_earlier_version_is_read() {
    assert_eq!(key_of(&file_with_key("[\"a desc\"]")), Ok(vec![Part::new("a").descending()]));
    assert_eq!(key_of(&file_with_key("[\"a\"]")), Ok(vec![Part::new("a")]));
    for wrong in [
        "7",
        "[7]",
        "[{}]",
        "[{\"column\": \"a\", \"descending\": 1}]",
        "[{\"column\": \"a\", \"collation\": \"x\"}]",
        "[{\"column\": \"a\", \"order\": \"desc\"}]",
    ] {
        assert!(key_of(&file_with_key(wrong)).unwrap_err().contains("not a list of columns"), "{wrong}");
    }
}
