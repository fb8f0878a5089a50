//! Single documents: GET, PUT, PATCH and DELETE of a primary key.

use crate::access::tokens::Scope;
use crate::calls::call::{Call, json_body};
use crate::calls::meanings::{CONFLICT, DONE, FAILED, FULL, LATE, MISSING, TOO_LARGE, UNSUPPORTED};
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::query;
use crate::data::conditions::{Conditions, etag, etag_header};
use crate::data::held::Data;
use crate::data::served::Served;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::operations::documents::address::{Asked, values_of};
use crate::operations::documents::merge_patch::{apply, check_patch_type, unknown, wrong};
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{done, not_modified, whole};
use axum::http::header::ETAG;
use pando::{Durability, ReadTables, WriteTables};
use rows::{Column, DynamicRow, DynamicTable, Value};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

const PATH: &str = "/v1/databases/{database}/documents/{table}/{key}";

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        PATH,
        Access::Database(Scope::Read),
        Kind::Get,
        "Get the document of a primary key",
        |parts, call, _| Box::pin(get(parts.data(), call)),
    )
    .takes(&["if-match", "if-none-match", "transaction"])
    .responses(&[
        (200, "JSON: one member for each column"),
        (304, "The client has it"),
        MISSING,
        CONFLICT,
        FAILED,
    ]),
    on_both!(
        "PUT",
        PATH,
        Access::Database(Scope::Write),
        Kind::Put,
        "Put a document; with a condition, compare and swap",
        |parts, call, body| Box::pin(put(parts.data(), parts.room(), call, body)),
    )
    .takes(&["if-match", "if-none-match", "durability", "transaction"])
    .receives("document")
    .responses(&[DONE, MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL]),
    on_both!(
        "PATCH",
        PATH,
        Access::Database(Scope::Write),
        Kind::Put,
        "Change members of a document (JSON merge patch); with a condition, compare and swap",
        |parts, call, body| Box::pin(patch(parts.data(), parts.room(), call, body)),
    )
    .takes(&["if-match", "if-none-match", "durability", "transaction"])
    .receives("merge-patch")
    .responses(&[DONE, MISSING, CONFLICT, FAILED, TOO_LARGE, UNSUPPORTED, LATE, FULL]),
    on_both!(
        "DELETE",
        PATH,
        Access::Database(Scope::Write),
        Kind::Delete,
        "Delete a document; succeeds if it does not exist",
        |parts, call, _| Box::pin(delete(parts.data(), call)),
    )
    .takes(&["if-match", "if-none-match", "durability", "transaction"])
    .responses(&[DONE, MISSING, CONFLICT, FAILED, FULL]),
];

async fn get<E: Served>(data: Arc<Data<E>>, call: Call) -> Answer {
    let (asked, conditions) = (Asked::parse(&call)?, Conditions::from_headers(&call.headers)?);
    let found = match asked.transaction.clone() {
        Some(token) => {
            let database = asked.database.clone();
            let look = move |tx: &mut E::Transaction| find(tx, &asked_key(tx, &asked)?);
            data.transactions.run(&database, &token, move |_, tx| look(tx)).await?
        }
        None => {
            let open = data.database(&asked.database).await?;
            let look = move |snapshot: E::Snapshot| find(&snapshot, &asked_key(&snapshot, &asked)?);
            hand_off(move || E::read(&open.db, look)).await?
        }
    };
    let Some(text) = found else {
        conditions.check(None)?;
        return Err(Problem::not_found("there is no document with this key"));
    };
    let tag = etag(&text);
    let mut response =
        if conditions.has_this_already(&tag)? { not_modified() } else { whole("application/json", text) };
    response.headers_mut().insert(ETAG, etag_header(&tag));
    Ok(response)
}

async fn put<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let (asked, conditions) = (Asked::parse(&call)?, Conditions::from_headers(&call.headers)?);
    let durability = query::durability::<E>(call.target().query(), data.durability);
    let (object, counted): (Map<String, Json>, _) = json_body(&room.reception, body).await?;
    let place = asked.clone();
    let work = move |tx: &mut E::Transaction| {
        let _counted = &counted;
        set(tx, &asked_key(tx, &place)?, &object, &conditions)
    };
    let (tag, number) = change(&data, durability?, asked, work).await?;
    let mut response = done(number);
    response.headers_mut().insert(ETAG, etag_header(&tag));
    Ok(response)
}

async fn patch<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    check_patch_type(&call.headers)?;
    let (asked, conditions) = (Asked::parse(&call)?, Conditions::from_headers(&call.headers)?);
    let durability = query::durability::<E>(call.target().query(), data.durability)?;
    let (members, counted): (Map<String, Json>, _) = json_body(&room.reception, body).await?;
    let place = asked.clone();
    let work = move |tx: &mut E::Transaction| {
        let _counted = &counted;
        merge(tx, &asked_key(tx, &place)?, &members, &conditions)
    };
    let (tag, number) = change(&data, durability, asked, work).await?;
    let mut response = done(number);
    response.headers_mut().insert(ETAG, etag_header(&tag));
    Ok(response)
}

async fn delete<E: Served>(data: Arc<Data<E>>, call: Call) -> Answer {
    let (asked, conditions) = (Asked::parse(&call)?, Conditions::from_headers(&call.headers)?);
    let durability = query::durability::<E>(call.target().query(), data.durability)?;
    let place = asked.clone();
    let work = move |tx: &mut E::Transaction| unset(tx, &asked_key(tx, &place)?, &conditions);
    let ((), number) = change(&data, durability, asked, work).await?;
    Ok(done(number))
}

/// Writes a row as an object, without spaces.
fn write(columns: &[&Column], row: &[Value<'_>], out: &mut Vec<u8>) {
    for (at, (column, value)) in columns.iter().zip(row).enumerate() {
        out.push(if at == 0 { b'{' } else { b',' });
        serde_json::to_writer(&mut *out, column.name()).expect("a vector takes everything");
        out.push(b':');
        serde_json::to_writer(&mut *out, &value.to_json(column.column_type())).expect("as above");
    }
    out.push(b'}');
}

fn document(table: &DynamicTable, row: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&table.schema().columns().collect::<Vec<_>>(), row, &mut out);
    out
}

/// Reads a row from an object. If `key` is given, it replaces the columns of the primary key.
fn read(
    table: &DynamicTable,
    object: &Map<String, Json>,
    key: Option<&[Value<'static>]>,
) -> Answer<DynamicRow> {
    let wrong = |column: &str, what: String| wrong(table, column, what);
    if let Some(name) = object.keys().find(|name| table.schema().place(name).is_none()) {
        return Err(unknown(table, name));
    }
    let of_key = |column: &Column| {
        let at = table.schema().key().iter().position(|part| part.column() == column.name())?;
        key?.get(at).cloned()
    };
    let value = |column: &Column| {
        let name = column.name();
        let given = object.get(name).map(|json| column.column_type().parse_json(json));
        let given = given.transpose().map_err(|what| wrong(name, what))?;
        match (given, of_key(column)) {
            (Some(given), Some(key)) if given != key => {
                Err(wrong(name, "its value differs from the one in the address".to_owned()))
            }
            (Some(given), _) => Ok(given),
            (None, Some(key)) => Ok(key),
            (None, None) => column
                .value_if_absent()
                .ok_or_else(|| wrong(name, "it is missing and has no default".to_owned())),
        }
    };
    table.schema().columns().map(value).collect()
}

/// A table, and a complete primary key of it.
struct Place {
    table: DynamicTable,
    key: Vec<Value<'static>>,
}

fn asked_key(reader: &impl ReadTables, asked: &Asked) -> Answer<Place> {
    let table = asked.open(reader)?;
    let key = values_of(&table, table.schema().key(), &asked.key)?;
    Ok(Place { table, key })
}

/// Returns the document, if it exists.
fn find(reader: &impl ReadTables, place: &Place) -> Answer<Option<Vec<u8>>> {
    Ok(place.table.get_with(reader, &place.key, |row| document(&place.table, &row))?)
}

/// Sets a document, and returns its tag.
fn set(
    tx: &mut impl WriteTables,
    place: &Place,
    object: &Map<String, Json>,
    conditions: &Conditions,
) -> Answer<String> {
    let row = read(&place.table, object, Some(&place.key))?;
    check(tx, place, conditions)?;
    place.table.upsert(tx, &row)?;
    tag_of(tx, place, &row)
}

/// Changes members of a document, and returns its tag.
fn merge(
    tx: &mut impl WriteTables,
    place: &Place,
    members: &Map<String, Json>,
    conditions: &Conditions,
) -> Answer<String> {
    let table = &place.table;
    let Some(mut row) = table.get(tx, &place.key)? else {
        conditions.check(None)?;
        return Err(Problem::not_found("there is no document with this key: PUT creates one"));
    };
    conditions.check(Some(&etag(&document(table, &row))))?;
    let before = row.clone();
    apply(table, members, &mut row)?;
    if let Some(part) = table
        .schema()
        .key()
        .iter()
        .find(|part| table.schema().place(part.column()).is_some_and(|at| row.get(at) != before.get(at)))
    {
        let what = "it is a part of the key, which a patch cannot change";
        return Err(wrong(table, part.column(), what));
    }
    table.upsert(tx, &row)?;
    tag_of(tx, place, &row)
}

/// Returns the tag of a document that was just written as `row`.
fn tag_of(tx: &impl ReadTables, place: &Place, row: &[Value<'_>]) -> Answer<String> {
    let read = if place.table.may_convert() { find(tx, place)? } else { None };
    Ok(etag(&read.unwrap_or_else(|| document(&place.table, row))))
}

fn unset(tx: &mut impl WriteTables, place: &Place, conditions: &Conditions) -> Answer<()> {
    check(tx, place, conditions)?;
    place.table.delete(tx, &place.key)?;
    Ok(())
}

fn check(tx: &impl ReadTables, place: &Place, conditions: &Conditions) -> Answer<()> {
    if !conditions.are_there() {
        return Ok(());
    }
    conditions.check(find(tx, place)?.as_deref().map(etag).as_deref())
}

/// Runs `work` in the request's transaction, or in a transaction of its own.
async fn change<E: Served, T: Send + 'static>(
    data: &Arc<Data<E>>,
    durability: Durability,
    asked: Asked,
    work: impl Fn(&mut E::Transaction) -> Answer<T> + Send + 'static,
) -> Answer<(T, Option<u64>)> {
    if let Some(token) = asked.transaction {
        let done = data.transactions.run(&asked.database, &token, move |_, tx| work(tx)).await?;
        return Ok((done, None));
    }
    let open = data.database(&asked.database).await?;
    hand_off(move || E::write(&open.db, durability, work)).await
}
