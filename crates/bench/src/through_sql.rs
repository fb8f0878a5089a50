//! `--api sql`: writes the same rows through SQL, over connections with prepared statements.

use crate::Outcome;
use crate::sink::Sink;
use pando::Database;
use rows::DynamicTable;
use sql::{Connection, Sql, Statement};

/// The statement that inserts a row with a text.
pub const INSERT: &str = "INSERT INTO rows(id, data) VALUES(?, ?)";
const INSERT_ID: &str = "INSERT INTO rows(id) VALUES(?)";

/// Creates a table over a connection.
pub fn create(db: &Database, with_text: bool) -> Outcome<Sink> {
    let sql = Sql::new(db.clone());
    let text = if with_text { ", data TEXT NOT NULL" } else { "" };
    run(&connect(&sql)?, &format!("CREATE TABLE rows(id INTEGER PRIMARY KEY{text})"))?;
    let table = DynamicTable::expect(&db.snapshot()?, "rows")?;
    Ok(Sink::Sql(table, sql))
}

/// Opens a connection.
pub fn connect(sql: &Sql) -> Outcome<Connection> {
    Ok(sql.connect().map_err(pando::Error::from)?)
}

/// Runs a statement without parameters.
pub fn run(connection: &Connection, sql: &str) -> Outcome<()> {
    connection.execute(sql, &[]).map_err(pando::Error::from)?;
    Ok(())
}

/// Prepares a statement.
pub fn prepare<'c>(connection: &'c Connection, sql: &str) -> Outcome<Statement<'c>> {
    Ok(connection.prepare(sql).map_err(pando::Error::from)?)
}

/// Inserts a row with a text.
pub fn insert(statement: &mut Statement<'_>, id: u64, text: &str) -> Outcome<()> {
    let values = [(id as i64).into(), text.to_owned().into()];
    statement.execute(&values).map_err(pando::Error::from)?;
    Ok(())
}

/// Inserts rows with only an id into a new table, in one transaction or each in its own.
pub fn insert_all(db: &Database, ids: &[u32], in_one: bool) -> Outcome<Sink> {
    let sink = create(db, false)?;
    let Sink::Sql(_, sql) = &sink else { unreachable!("it was made by SQL") };
    let connection = connect(sql)?;
    if in_one {
        run(&connection, "BEGIN")?;
    }
    let mut statement = prepare(&connection, INSERT_ID)?;
    for &id in ids {
        statement.execute(&[i64::from(id).into()]).map_err(pando::Error::from)?;
    }
    drop(statement);
    if in_one {
        run(&connection, "COMMIT")?;
    }
    Ok(sink)
}
