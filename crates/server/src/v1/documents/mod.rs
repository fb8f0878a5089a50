//! Typed documents: rows of typed tables as JSON objects.
//!
//! * `/documents`: GET lists the tables, with columns, keys and indexes.
//! * `/documents/{table}`: GET with `index`, `start`, `end`, `prefix`, `reverse`, `limit`, `cursor`, `format`: a range
//!   of the primary key or of an index; POST: rows of NDJSON or CSV, all of them in one transaction.
//! * `/documents/{table}/{key}`: GET, PUT, DELETE of one row.
//!
//! Values are written as `rows` writes them, as JSON in documents and as text in addresses; the parts of a key stand
//! behind one another with slashes between. A table is looked up in each request's own snapshot or transaction, so that
//! no handle is ever out of date.
//!
//! Ranges are read in `range`, many rows stored in `import`; single documents are here.

mod import;
mod range;

use super::conditions::{Conditions, etag, etag_header};
use super::{
    Shared, commit, database, done, durability, json, no_part_of_transactions, place, split, transaction_of,
};
use crate::app::App;
use crate::handoff::hand_off;
use crate::problem::{Answer, Problem};
use crate::receive::RequestBody;
use crate::target::decode;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use pando::{Snapshot, Transaction};
use range::{Which, scan};
use rows::{Column, DynamicRow, DynamicTable, Part, Value};
use serde_json::{Map, Value as Json, json as object};
use std::sync::Arc;

/// GET lists the typed tables.
pub async fn all(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), _) = split(request);
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let open = database(&app, place::database(uri.path()).unwrap_or_default()).await?;
    let tables = hand_off(move || {
        let tables = DynamicTable::all(&open.db.snapshot()?)?;
        Ok(tables.iter().map(describe).collect::<Vec<_>>())
    });
    Ok(json(StatusCode::OK, &object!({ "tables": tables.await? })))
}

fn describe(table: &DynamicTable) -> Json {
    let part = |part: &Part| {
        let descending = part.is_descending().then_some(true);
        let mut shown = object!({ "column": part.column() });
        let members = shown.as_object_mut().expect("it is one");
        members.extend(descending.map(|is| ("descending".to_owned(), is.into())));
        members.extend(part.pointer().map(|pointer| ("pointer".to_owned(), pointer.into())));
        shown
    };
    let schema = table.schema();
    let columns = schema.columns().map(|column| {
        object!({
            "name": column.name(),
            "type": column.column_type().to_string(),
            "nullable": column.is_nullable(),
            "default": column.default_value().map(|value| value.to_json(column.column_type())),
        })
    });
    let indexes = schema.indexes().iter().map(|index| {
        let parts: Vec<Json> = index.parts().iter().map(part).collect();
        object!({
            "name": index.name(),
            "parts": parts,
            "unique": index.is_unique(),
            "building": index.is_building(),
        })
    });
    object!({
        "name": table.name(),
        "columns": columns.collect::<Vec<_>>(),
        "key": schema.key().iter().map(part).collect::<Vec<_>>(),
        "indexes": indexes.collect::<Vec<_>>(),
    })
}

/// What a path names.
#[derive(Clone, Debug)]
struct Asked {
    database: String,
    table: String,
    /// As it stands there: its types are the table's.
    key: String,
    transaction: Option<String>,
}

impl Asked {
    fn of(uri: &Uri, headers: &HeaderMap) -> Answer<Self> {
        let path = uri.path();
        Ok(Asked {
            database: place::database(path).unwrap_or_default().to_owned(),
            table: text_of(place::part_of(path, "documents").unwrap_or_default())?,
            key: place::document_key(path).unwrap_or_default().to_owned(),
            transaction: transaction_of(headers)?,
        })
    }

    /// The table, as `reader` sees it.
    fn open(&self, reader: &impl pando::ReadTables) -> Answer<DynamicTable> {
        Ok(DynamicTable::expect(reader, &self.table)?)
    }
}

/// A part of an address as text.
fn text_of(segment: &str) -> Answer<String> {
    let wrong = |_| Problem::bad_request("names and values in an address must be UTF-8");
    String::from_utf8(decode(segment)?.into_owned()).map_err(wrong)
}

/// The column of a key's or an index's part.
fn column_of<'t>(table: &'t DynamicTable, part: &Part) -> &'t Column {
    table.schema().columns().find(|column| column.name() == part.column()).expect("parts are of columns")
}

/// The values of the first parts of a key, with slashes between them.
fn values_of(table: &DynamicTable, parts: &[Part], text: &str) -> Answer<Vec<Value<'static>>> {
    let texts: Vec<&str> = text.split('/').collect();
    if texts.len() > parts.len() {
        let (is, most) = (texts.len(), parts.len());
        let detail =
            format!("table {:?}: the key in the address has {is} values, but {most} parts", table.name());
        return Err(Problem::bad_request(detail));
    }
    let value = |(text, part): (&str, &Part)| {
        let column = column_of(table, part);
        // What a path leads to in a document may be of any type.
        let kind = if part.pointer().is_some() { rows::ColumnType::Any } else { column.column_type() };
        let name = column.name();
        let wrong = |what| Problem::bad_request(format!("table {:?}, column {name:?}: {what}", table.name()));
        kind.parse(&text_of(text)?).map_err(wrong)
    };
    texts.into_iter().zip(parts).map(value).collect()
}

/// A row as an object, without spaces.
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

/// A row of what an object says; `key`, if it is known, stands for the columns of the primary key.
fn read(
    table: &DynamicTable,
    object: &Map<String, Json>,
    key: Option<&[Value<'static>]>,
) -> Answer<DynamicRow> {
    let wrong = |column: &str, what: String| {
        Problem::bad_request(format!("table {:?}, column {column:?}: {what}", table.name()))
    };
    if let Some(name) = object.keys().find(|name| table.schema().place(name).is_none()) {
        let known: Vec<_> = table.schema().columns().map(Column::name).collect();
        return Err(wrong(name, format!("there is no such column; there are {}", known.join(", "))));
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
            (None, None) => {
                let default = column.default_value().cloned().or(column.is_nullable().then_some(Value::Null));
                default.ok_or_else(|| wrong(name, "it is missing and has no default".to_owned()))
            }
        }
    };
    table.schema().columns().map(value).collect()
}

/// GET, PUT, DELETE of one.
pub async fn one(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, headers), body) = split(request);
    if ![Method::GET, Method::PUT, Method::DELETE].contains(&method) {
        return Err(Problem::method_not_allowed());
    }
    let asked = Asked::of(&uri, &headers)?;
    let conditions = Conditions::of(&headers)?;
    match method {
        Method::GET => get(app, asked, conditions).await,
        Method::PUT => {
            let (object, counted): (Map<String, Json>, _) = super::json_body(&app, body).await?;
            let place = asked.clone();
            let work = move |tx: &mut Transaction| {
                let _counted = &counted;
                put(tx, &asked_key(tx, &place)?, &object, &conditions)
            };
            let (tag, number) = change(&app, &uri, asked, work).await?;
            let mut response = done(number);
            response.headers_mut().insert(ETAG, etag_header(&tag));
            Ok(response)
        }
        _ => {
            let place = asked.clone();
            let work = move |tx: &mut Transaction| delete(tx, &asked_key(tx, &place)?, &conditions);
            let ((), number) = change(&app, &uri, asked, work).await?;
            Ok(done(number))
        }
    }
}

/// A table, and a whole primary key of it.
struct Place {
    table: DynamicTable,
    key: Vec<Value<'static>>,
}

fn asked_key(reader: &impl pando::ReadTables, asked: &Asked) -> Answer<Place> {
    let table = asked.open(reader)?;
    let key = values_of(&table, table.schema().key(), &asked.key)?;
    Ok(Place { table, key })
}

/// The document, if there is one.
fn find(reader: &impl pando::ReadTables, place: &Place) -> Answer<Option<Vec<u8>>> {
    Ok(place.table.get_with(reader, &place.key, |row| document(&place.table, &row))?)
}

async fn get(app: Arc<App>, asked: Asked, conditions: Conditions) -> Answer {
    let found = match asked.transaction.clone() {
        Some(token) => {
            let database = asked.database.clone();
            let look = move |tx: &mut Transaction| find(tx, &asked_key(tx, &asked)?);
            app.transactions.run(&database, &token, move |_, tx| look(tx)).await?
        }
        None => {
            let open = database(&app, &asked.database).await?;
            let look = move |snapshot: Snapshot| find(&snapshot, &asked_key(&snapshot, &asked)?);
            hand_off(move || look(open.db.snapshot()?)).await?
        }
    };
    let Some(text) = found else {
        conditions.check(None)?;
        return Err(Problem::not_found("there is no document with this key"));
    };
    let tag = etag(&text);
    let mut response = if conditions.has_this_already(&tag)? {
        let mut response = Response::new(crate::body::Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let mut response = Response::new(crate::body::Body::whole(text));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    };
    response.headers_mut().insert(ETAG, etag_header(&tag));
    Ok(response)
}

/// Sets a document. Answers its tag.
fn put(
    tx: &mut Transaction,
    place: &Place,
    object: &Map<String, Json>,
    conditions: &Conditions,
) -> Answer<String> {
    let row = read(&place.table, object, Some(&place.key))?;
    check(tx, place, conditions)?;
    place.table.upsert(tx, &row)?;
    Ok(etag(&document(&place.table, &row)))
}

fn delete(tx: &mut Transaction, place: &Place, conditions: &Conditions) -> Answer<()> {
    check(tx, place, conditions)?;
    place.table.delete(tx, &place.key)?;
    Ok(())
}

fn check(tx: &Transaction, place: &Place, conditions: &Conditions) -> Answer<()> {
    if !conditions.are_there() {
        return Ok(());
    }
    conditions.check(find(tx, place)?.as_deref().map(etag).as_deref())
}

/// Runs `work` in the request's transaction, or in one of its own.
async fn change<T: Send + 'static>(
    app: &Arc<App>,
    uri: &Uri,
    asked: Asked,
    work: impl Fn(&mut Transaction) -> Answer<T> + Send + 'static,
) -> Answer<(T, Option<u64>)> {
    let durability = durability(app, uri)?;
    if let Some(token) = asked.transaction {
        let done = app.transactions.run(&asked.database, &token, move |_, tx| work(tx)).await?;
        return Ok((done, None));
    }
    let open = database(app, &asked.database).await?;
    let committed = hand_off(move || commit(&open.db, durability, work)).await?;
    Ok((committed.0, Some(committed.1)))
}

/// GET a range, POST rows.
pub async fn many(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, headers), body) = split(request);
    let asked = Asked::of(&uri, &headers)?;
    match method {
        Method::GET => scan(app, asked, Which::of(&uri)?).await,
        Method::POST => {
            no_part_of_transactions(&headers, "an import, which is a transaction of its own, is")?;
            import::run(&app, asked, &uri, &headers, body).await
        }
        _ => Err(Problem::method_not_allowed()),
    }
}
