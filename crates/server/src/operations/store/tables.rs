//! Tables of a remote store: list, look at, create, rename and drop. They have no layout and no compression.

use crate::calls::call::{Call, json_body};
use crate::data::engine::{Engine, Remote};
use crate::data::held::{Data, table_in};
use crate::data::open::Open;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::operations::tables::{
    Change, Options, compression_of, layout_of, refuse_raw_change, to_change, ttl_ms,
};
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::remote::{Capability, RemoteDatabase};
use pando::{Error, ErrorKind, Table, TableOptions};
use serde_json::{Value, json as object};
use std::sync::Arc;
use std::time::Duration;

/// Returns all tables of a database.
pub fn list(db: &RemoteDatabase) -> Answer<Vec<Value>> {
    Ok(db.tables()?.iter().map(describe).collect())
}

fn describe(table: &Table) -> Value {
    object!({ "name": table.name(), "ttl_ms": ttl_ms(table) })
}

/// Handles GET: lists the tables.
pub async fn all(data: Arc<Data<Remote>>, call: Call) -> Answer {
    let open = data.database(call.target().database()).await?;
    let tables = hand_off(move || list(&open.db)).await?;
    Ok(json(StatusCode::OK, &object!({ "tables": tables })))
}

/// Handles GET: describes one table.
pub async fn look(data: Arc<Data<Remote>>, call: Call) -> Answer {
    let (open, name) = (data.database(call.target().database()).await?, call.target().table()?.into_owned());
    let described =
        hand_off(move || Remote::read(&open.db, |snapshot| Ok(describe(&table_in(&snapshot, &name)?))));
    Ok(json(StatusCode::OK, &described.await?))
}

/// Handles PUT: creates a table.
pub async fn put(data: Arc<Data<Remote>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let (database, name) = to_change(&call)?;
    let (asked, _): (Options, _) = json_body(&room.reception, body).await?;
    let options = options(&asked)?;
    let open = data.database(&database).await?;
    let (is_new, described) = hand_off(move || create(&open, &name, &options)).await?;
    Ok(json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &described))
}

/// Returns the options of a new table. The store refuses those that it does not have.
fn options(asked: &Options) -> Answer<TableOptions> {
    let mut options = TableOptions::default();
    if let Some(word) = &asked.layout {
        options.layout = layout_of(word)?;
    }
    if let Some(word) = &asked.compression {
        options.compression = compression_of(word)?;
    }
    options.ttl = asked.ttl_ms.map(Duration::from_millis);
    options.ttl_by_key = asked.ttl_by_key.unwrap_or_default();
    Ok(options)
}

/// Creates the table, or finds one with these options.
fn create(open: &Open<Remote>, name: &str, options: &TableOptions) -> Answer<(bool, Value)> {
    let (is_new, table) = open.db.write(|tx| match tx.table(name)? {
        None => Ok((true, tx.create_table(name, options)?)),
        // An option that the request does not set stays as it is.
        Some(_) if options.ttl.is_some() => Ok((false, tx.ensure_table_with(name, options)?)),
        Some(found) => {
            let mut same = *options;
            same.ttl = found.ttl();
            Ok((false, tx.ensure_table_with(name, &same)?))
        }
    })?;
    open.know(&table);
    Ok((is_new, describe(&table)))
}

/// Handles PATCH: changes the name of a table.
pub async fn patch(data: Arc<Data<Remote>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let (database, name) = to_change(&call)?;
    let (change, _): (Change, _) = json_body(&room.reception, body).await?;
    if change.layout.is_some() || change.compression.is_some() || change.ttl_ms.is_some() {
        return Err(Capability::TableChanges.refusal().into());
    }
    let Some(new_name) = change.name.clone() else {
        return Err(Problem::bad_request("there is nothing to change: give `name`"));
    };
    refuse_raw_change(&name, &change)?;
    let open = data.database(&database).await?;
    let described = hand_off(move || {
        let missing = || Error::new(ErrorKind::Missing, format!("there is no table {name:?}"));
        let renamed = open.db.write(|tx| {
            let table = tx.table(&name)?.ok_or_else(missing)?;
            tx.rename_table(&table, &new_name)
        })?;
        open.forget(&name);
        open.know(&renamed);
        Ok(describe(&renamed))
    });
    Ok(json(StatusCode::OK, &described.await?))
}

/// Handles DELETE: drops a table.
pub async fn drop_table(data: Arc<Data<Remote>>, call: Call) -> Answer {
    let (database, name) = to_change(&call)?;
    let open = data.database(&database).await?;
    hand_off(move || {
        let dropped = open.db.drop_table(&name);
        open.forget(&name);
        Ok(dropped?)
    })
    .await?;
    Ok(done(None))
}
