//! A typed table as a `BTreeMap` and a list of columns, and the random changes that are made to both.

use base::env::Random;
use pando::{ErrorKind, Result, Snapshot, Transaction};
use pando_rows::{
    Cause, Collation, Column, ColumnType, Definition, DynamicRow, DynamicTable, IndexDefinition, KeyRange,
    Part, Value,
};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// The primary key is a text, and an int from the largest to the smallest.
pub type Key = (String, Reverse<i64>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub name: String,
    pub columns: Vec<ModelColumn>,
    pub rows: BTreeMap<Key, DynamicRow>,
    pub indexes: Vec<ModelIndex>,
    /// Columns so far, for names that differ.
    made: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelColumn {
    pub name: String,
    pub kind: ColumnType,
    pub nullable: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelIndex {
    pub name: String,
    pub parts: Vec<Part>,
    pub unique: bool,
}

const KINDS: [ColumnType; 10] = ColumnType::ALL;

/// Few enough that rows meet.
pub fn value(kind: ColumnType, random: &mut Random) -> Value<'static> {
    let n = random.below(12) as i64 - 4;
    match kind {
        ColumnType::Any => {
            let kinds = [ColumnType::Int, ColumnType::Float, ColumnType::Text, ColumnType::Bytes];
            value(kinds[random.below(4) as usize], random)
        }
        ColumnType::Bool => Value::Bool(n < 0),
        ColumnType::Int => Value::Int(n),
        ColumnType::UInt => Value::UInt(n.unsigned_abs()),
        ColumnType::Float => Value::Float(n as f64 / 2.0),
        ColumnType::Timestamp => Value::Timestamp(n * 1_000_000_000),
        ColumnType::Text => {
            let texts = ["", "a", "A", "a\0", "b", "longer than the others", "z"];
            Value::from(texts[random.below(texts.len() as u64) as usize])
        }
        ColumnType::Uuid => Value::Uuid([n as u8; 16]),
        ColumnType::Bytes => Value::from(vec![0xff; n.unsigned_abs() as usize % 4]),
        ColumnType::Json => Value::json(&match n {
            0 => serde_json::json!({"other": 1}),
            _ => serde_json::json!({"a": n}),
        }),
        other => panic!("no values of type {other}"),
    }
}

impl Model {
    pub fn create(tx: &mut Transaction) -> Result<(DynamicTable, Model)> {
        let columns = [("k", ColumnType::Text), ("n", ColumnType::Int)];
        let named =
            |(name, kind): (&str, ColumnType)| ModelColumn { name: name.to_owned(), kind, nullable: false };
        let definition = columns
            .iter()
            .fold(Definition::new("t"), |all, (name, kind)| all.column(Column::new(*name, *kind)))
            .key([Part::new("k"), Part::new("n").descending()]);
        let table = DynamicTable::create(tx, &definition)?;
        let columns = columns.into_iter().map(named).collect();
        Ok((table, Model { name: "t".to_owned(), columns, ..Model::default() }))
    }

    fn place(&self, column: &str) -> usize {
        self.columns.iter().position(|known| known.name == column).expect("the model knows its columns")
    }

    pub fn row(&self, random: &mut Random) -> DynamicRow {
        let one = |(place, column): (usize, &ModelColumn)| {
            // The key is dense, so that updates meet rows.
            match (column.nullable && random.chance(1, 4), place) {
                (true, _) => Value::Null,
                (_, 1) => Value::Int(random.below(6) as i64),
                _ => value(column.kind, random),
            }
        };
        self.columns.iter().enumerate().map(one).collect()
    }

    /// The values of a row in an index, as they are compared.
    fn entry(&self, index: &ModelIndex, row: &DynamicRow) -> Vec<(bool, Value<'static>)> {
        let one = |part: &Part| {
            let value = row[self.place(part.column())].clone();
            let value = match (value, part.collation_of(), part.pointer()) {
                (Value::Text(text), Collation::NoCase, _) => Value::from(text.to_lowercase()),
                (Value::Json(json), _, Some(_)) => {
                    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
                    Value::from(json["a"].as_i64())
                }
                (value, ..) => value,
            };
            (part.is_descending(), value)
        };
        index.parts.iter().map(one).collect()
    }

    /// Whether `row` is the same as another one in a unique index.
    fn violates(&self, row: &DynamicRow, but: Option<&Key>) -> bool {
        self.indexes.iter().filter(|index| index.unique).any(|index| {
            let entry = self.entry(index, row);
            let has_null = entry.iter().any(|(_, value)| value.is_null());
            let same =
                |(key, other): (&Key, &DynamicRow)| Some(key) != but && self.entry(index, other) == entry;
            !has_null && self.rows.iter().any(same)
        })
    }

    fn is_unique(&self, index: &ModelIndex) -> bool {
        let with = Model { indexes: vec![ModelIndex { unique: true, ..index.clone() }], ..self.clone() };
        !self.rows.iter().any(|(key, row)| with.violates(row, Some(key)))
    }

    /// The rows in the order of an index.
    fn by(&self, index: &ModelIndex) -> Vec<DynamicRow> {
        let mut rows: Vec<_> =
            self.rows.iter().map(|(key, row)| (self.entry(index, row), key, row)).collect();
        rows.sort_by(|(a, a_key, _), (b, b_key, _)| {
            let parts = a.iter().zip(b).map(|((descending, a), (_, b))| {
                let order = a.cmp(b);
                if *descending { order.reverse() } else { order }
            });
            parts.fold(Ordering::Equal, Ordering::then).then_with(|| a_key.cmp(b_key))
        });
        rows.into_iter().map(|(_, _, row)| row.clone()).collect()
    }

    /// Makes one change to rows in both, and holds the answers against each other.
    pub fn change_row(
        &mut self,
        tx: &mut Transaction,
        table: &DynamicTable,
        random: &mut Random,
    ) -> Result<()> {
        let row = self.row(random);
        let key = key_of(&row);
        let old = self.rows.get(&key).cloned();
        match random.below(7) {
            0..2 => {
                let fits = old.is_none() && !self.violates(&row, None);
                if accepted(table.insert(tx, &row), fits)? {
                    self.rows.insert(key, row);
                }
            }
            2..4 => {
                if accepted(table.upsert(tx, &row), !self.violates(&row, Some(&key)))? {
                    self.rows.insert(key, row);
                }
            }
            4 => {
                let fits = old.is_none() || !self.violates(&row, Some(&key));
                let updated = table.update(tx, &row);
                if let Ok(found) = &updated {
                    assert_eq!(*found, old.is_some());
                }
                if accepted(updated.map(drop), fits)? && old.is_some() {
                    self.rows.insert(key, row);
                }
            }
            5 => {
                let from = key_of(&self.row(random));
                let there = self.rows.contains_key(&from);
                let taken = from != key && old.is_some();
                let fits = !there || (!taken && !self.violates(&row, Some(&from)));
                let replaced = table.replace(tx, &values(&from), &row);
                if let Ok(found) = &replaced {
                    assert_eq!(*found, there);
                }
                if accepted(replaced.map(drop), fits)? && there {
                    self.rows.remove(&from);
                    self.rows.insert(key, row);
                }
            }
            _ => {
                assert_eq!(table.remove(tx, &values(&key))?, old);
                self.rows.remove(&key);
            }
        }
        Ok(())
    }

    /// Makes one change to the schema in both.
    pub fn change_schema(
        &mut self,
        tx: &mut Transaction,
        table: DynamicTable,
        random: &mut Random,
    ) -> Result<DynamicTable> {
        self.made += 1;
        let name = format!("c{}", self.made);
        match random.below(6) {
            0 | 1 => {
                let kind = KINDS[random.below(10) as usize];
                let (nullable, column) = (random.chance(1, 2), Column::new(name.clone(), kind));
                let default = (!nullable || random.chance(1, 2)).then(|| value(kind, random));
                let column = if nullable { column.nullable() } else { column };
                let column = match default.clone() {
                    Some(value) => column.default(value),
                    None => column,
                };
                let table = table.add_column(tx, column)?;
                self.columns.push(ModelColumn { name, kind, nullable });
                self.rows.values_mut().for_each(|row| row.push(default.clone().unwrap_or(Value::Null)));
                Ok(table)
            }
            2 if self.columns.len() > 2 => {
                let place = 2 + random.below(self.columns.len() as u64 - 2) as usize;
                let dropped = self.columns[place].name.clone();
                let mut parts = self.indexes.iter().flat_map(|index| &index.parts);
                if parts.any(|part| part.column() == dropped) {
                    assert_eq!(
                        table.clone().drop_column(tx, &dropped).unwrap_err().kind(),
                        ErrorKind::Invalid
                    );
                    return Ok(table);
                }
                let table = table.drop_column(tx, &dropped)?;
                self.columns.remove(place);
                self.rows.values_mut().for_each(|row| drop(row.remove(place)));
                Ok(table)
            }
            3 if !self.indexes.is_empty() => {
                let place = random.below(self.indexes.len() as u64) as usize;
                let table = table.drop_index(tx, &self.indexes[place].name)?;
                self.indexes.remove(place);
                Ok(table)
            }
            4 if random.chance(1, 2) => {
                self.name = format!("t{}", self.made);
                table.rename(tx, &self.name)
            }
            _ => {
                let (index, definition) = self.index(name, random);
                match table.clone().create_index(tx, definition) {
                    Ok(table) => {
                        assert!(!index.unique || self.is_unique(&index), "{index:?} was made of {self:?}");
                        self.indexes.push(index);
                        Ok(table)
                    }
                    Err(error) => {
                        assert!(index.unique && !self.is_unique(&index), "{error}");
                        assert!(matches!(Cause::in_error(&error), Some(Cause::Duplicate { .. })), "{error}");
                        Ok(table)
                    }
                }
            }
        }
    }

    /// A random index.
    pub fn index(&mut self, name: String, random: &mut Random) -> (ModelIndex, IndexDefinition) {
        let mut places: Vec<usize> = (0..self.columns.len()).collect();
        random.shuffle(&mut places);
        places.truncate(1 + random.below(3) as usize);
        let part = |place: usize| {
            let column = &self.columns[place];
            let part = Part::new(column.name.clone());
            let part = if random.chance(1, 3) { part.descending() } else { part };
            match column.kind {
                ColumnType::Json => part.path("/a"),
                ColumnType::Text if random.chance(1, 2) => part.collation(Collation::NoCase),
                _ => part,
            }
        };
        let parts: Vec<Part> = places.into_iter().map(part).collect();
        let unique = random.chance(1, 3);
        let definition = IndexDefinition::new(name.clone(), parts.clone());
        let definition = if unique { definition.unique() } else { definition };
        (ModelIndex { name, parts, unique }, definition)
    }

    /// Holds all that can be read against the model.
    pub fn verify(&self, reader: &impl pando::ReadTables, table: &DynamicTable) {
        let all =
            |range: KeyRange<'_>| table.scan(reader, &range).unwrap().collect::<Result<Vec<_>>>().unwrap();
        let rows: Vec<_> = self.rows.values().cloned().collect();
        assert_eq!(all(KeyRange::all()), rows);
        let mut backwards = all(KeyRange::all().backwards());
        backwards.reverse();
        assert_eq!(backwards, rows);
        for (key, row) in &self.rows {
            assert_eq!(table.get(reader, &values(key)).unwrap().as_ref(), Some(row));
        }
        for index in &self.indexes {
            let scan = table.scan_index(reader, &index.name, &KeyRange::all()).unwrap();
            assert_eq!(scan.collect::<Result<Vec<_>>>().unwrap(), self.by(index), "index {index:?}");
        }
    }

    /// Opens the table and verifies it, and that each index agrees with it.
    pub fn verify_all(&self, snapshot: &Snapshot) {
        let table = DynamicTable::expect(snapshot, &self.name).unwrap();
        self.verify(snapshot, &table);
        let report = pando_rows::check(snapshot, |_| {}).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!(report.rows, self.rows.len() as u64);
    }
}

fn accepted(result: Result<()>, fits: bool) -> Result<bool> {
    match result {
        Err(error) if error.kind() == ErrorKind::Exists => {
            assert!(!fits, "{error}");
            Ok(false)
        }
        Err(error) => Err(error),
        Ok(()) => {
            assert!(fits, "a duplicate was accepted");
            Ok(true)
        }
    }
}

pub fn key_of(row: &[Value<'_>]) -> Key {
    match (&row[0], &row[1]) {
        (Value::Text(text), Value::Int(n)) => (text.to_string(), Reverse(*n)),
        other => panic!("{other:?} is no key"),
    }
}

pub fn values(key: &Key) -> [Value<'static>; 2] {
    [Value::from(key.0.clone()), Value::from(key.1.0)]
}

/// Runs `work` for each seed, and says which one failed.
pub fn for_seeds(seeds: std::ops::Range<u64>, work: impl Fn(&mut Random)) {
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| work(&mut Random::seeded(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
