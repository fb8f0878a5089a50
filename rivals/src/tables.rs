//! What the workloads of tables ask of an engine: SQL, or what comes to the same.
//!
//! A connection prepares a statement once for each transaction or query loop, as a program would, and binds values to
//! it. An engine without SQL does the same work through its own interface.

use crate::engine::Outcome;

/// A value of a row.
#[derive(Clone, Debug)]
pub enum Cell {
    Int(i64),
    Text(String),
}

/// The tables of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// An id alone.
    Ids,
    /// An id and a text.
    Entries,
    /// An id and a name, which has an index.
    Towns,
    /// An id, a name, a town and an age; indexes over the name and the town.
    People,
}

impl Table {
    /// The statements that make it.
    pub fn create(self) -> &'static [&'static str] {
        match self {
            Table::Ids => &["CREATE TABLE ids(id INTEGER PRIMARY KEY)"],
            Table::Entries => &["CREATE TABLE entry(id INTEGER PRIMARY KEY, data TEXT NOT NULL)"],
            Table::Towns => &[
                "CREATE TABLE town(id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
                "CREATE INDEX town_name ON town(name)",
            ],
            Table::People => &[
                "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, town INTEGER NOT NULL,
                     age INTEGER NOT NULL)",
                "CREATE INDEX person_name ON person(name)",
                "CREATE INDEX person_town ON person(town)",
            ],
        }
    }

    /// The statement that adds a row.
    pub fn insert(self) -> &'static str {
        match self {
            Table::Ids => "INSERT INTO ids(id) VALUES(?)",
            Table::Entries => "INSERT INTO entry(id, data) VALUES(?, ?)",
            Table::Towns => "INSERT INTO town(id, name) VALUES(?, ?)",
            Table::People => "INSERT INTO person(id, name, town, age) VALUES(?, ?, ?, ?)",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Ids => "ids",
            Table::Entries => "entry",
            Table::Towns => "town",
            Table::People => "person",
        }
    }
}

/// Persons that a range takes.
pub const RANGE: i64 = 100;

/// The queries. Each answers integers in its first column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// A person's age, by id.
    Key,
    /// The ages of those of a name.
    Index,
    /// The ages of [`RANGE`] persons in the order of their ids.
    Range,
    /// The ages of a town's people, by the town's name.
    Join,
    /// How many people each town has.
    Aggregate,
}

impl Query {
    pub const ALL: [Query; 5] = [Query::Key, Query::Index, Query::Range, Query::Join, Query::Aggregate];

    /// The statement; it has a parameter but for the aggregate.
    pub fn sql(self) -> &'static str {
        match self {
            Query::Key => "SELECT age FROM person WHERE id = ?1",
            Query::Index => "SELECT age FROM person WHERE name = ?1",
            Query::Range => "SELECT age FROM person WHERE id >= ?1 AND id < ?1 + 100",
            Query::Join => {
                "SELECT person.age FROM town JOIN person ON person.town = town.id WHERE town.name = ?1"
            }
            Query::Aggregate => "SELECT count(*) FROM person GROUP BY town",
        }
    }

    /// The statement that shows its plan, for some parameter.
    pub fn explain(self) -> String {
        format!("EXPLAIN QUERY PLAN {}", self.sql().replace("?1", "1"))
    }

    /// What its plan must name.
    pub fn uses(self) -> &'static [&'static str] {
        match self {
            Query::Key | Query::Range => &["PRIMARY KEY"],
            Query::Index => &["person_name"],
            Query::Join => &["town_name", "person_town"],
            Query::Aggregate => &["COVERING INDEX person_town"],
        }
    }

    /// What cases call it.
    pub fn name(self) -> &'static str {
        match self {
            Query::Key => "primary key",
            Query::Index => "index",
            Query::Range => "range of 100",
            Query::Join => "join, 100 rows",
            Query::Aggregate => "aggregate of all",
        }
    }
}

/// An open database of tables.
pub trait Base: Sync {
    /// A new connection.
    fn connect(&self) -> Outcome<Box<dyn Link + '_>>;

    /// As [`crate::engine::Engine::settle`].
    fn settle(&self) -> Outcome<()>;
}

/// Makes the next row; answers false when there is none.
pub type NextRow<'a> = &'a mut dyn FnMut(&mut Vec<Cell>) -> bool;

/// Makes the next query's parameter; answers `None` when there is none.
pub type NextParameter<'a> = &'a mut dyn FnMut() -> Option<Cell>;

/// A connection.
pub trait Link {
    /// Makes a table.
    fn create(&mut self, table: Table) -> Outcome<()>;

    /// Inserts rows, in one transaction or each in one of its own. A primary key that is there already is a failure.
    fn insert(&mut self, table: Table, in_one: bool, next: NextRow<'_>) -> Outcome<()>;

    /// How the query is answered, in SQLite's words; `None` where there is no planner.
    fn plan(&mut self, query: Query) -> Outcome<Option<String>>;

    /// Asks a query for each parameter, and shows the first column of each row.
    fn ask(&mut self, query: Query, next: NextParameter<'_>, see: &mut dyn FnMut(i64)) -> Outcome<()>;

    /// How many rows a table has, and the sum of their ids.
    fn count(&mut self, table: Table) -> Outcome<(u64, i64)>;

    /// Runs a statement to its end, in a transaction of its own. Answers the sum of the integers in its first column.
    fn statement(&mut self, sql: &str) -> Outcome<i64>;
}
