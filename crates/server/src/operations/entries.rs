//! Single records: `/v1/databases/{database}/tables/{table}/entries/{key}`.

use super::place::Entry;
use super::{Shared, commit, done, durability, on_table, split, table, transaction_of};
use crate::data::conditions::{Conditions, etag, etag_header, tag_of_long};
use crate::data::open::Open;
use crate::data::writer::{Change, Committed};
use crate::limits::handoff::hand_off;
use crate::limits::receive::{Counted, Received, RequestBody};
use crate::routes::fast::{absent, found};
use crate::send::long_value::{self, LongValue};
use crate::send::records::read_all;
use crate::serving::service::App;
use crate::watch::slow;
use crate::wire::body::Body;
use crate::wire::problem::{Answer, Problem};
use axum::http::header::{CONTENT_LENGTH, ETAG};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use pando::{Durability, Table, Transaction, ValueReader};
use std::sync::Arc;

/// Values up to here are answered from memory, with their ETag.
const WHOLE_BYTES: u64 = 1 << 20;

/// What is asked for.
struct Asked {
    database: String,
    table: String,
    key: Vec<u8>,
    transaction: Option<String>,
    conditions: Conditions,
}

impl Asked {
    fn of(uri: &Uri, headers: &HeaderMap) -> Answer<Self> {
        let entry =
            Entry::of(uri.path()).unwrap_or_else(|| Err(Problem::not_found("the path has no key")))?;
        Ok(Asked {
            database: entry.database.to_owned(),
            table: entry.table.into_owned(),
            key: entry.key.into_owned(),
            transaction: transaction_of(headers)?,
            conditions: Conditions::of(headers)?,
        })
    }
}

/// Every method.
pub async fn one(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, headers), body) = split(request);
    match method {
        Method::GET => get(app, Asked::of(&uri, &headers)?, false).await,
        Method::HEAD => get(app, Asked::of(&uri, &headers)?, true).await,
        Method::PUT => put(app, Asked::of(&uri, &headers)?, &uri, body).await,
        Method::DELETE => delete(app, Asked::of(&uri, &headers)?, &uri).await,
        _ => Err(Problem::method_not_allowed()),
    }
}

/// A value, as far as it was read.
enum Found {
    Whole(Vec<u8>),
    /// With its tag, where a condition asks for it: it takes reading the value once more.
    Long(ValueReader, Option<String>),
}

fn read(find: impl Fn() -> Answer<Option<ValueReader>>, conditions: &Conditions) -> Answer<Option<Found>> {
    let Some(reader) = find()? else { return Ok(None) };
    if reader.len_bytes() <= WHOLE_BYTES {
        return Ok(Some(Found::Whole(read_all(reader)?)));
    }
    let again = if conditions.name_tags() { find()? } else { None };
    Ok(Some(Found::Long(reader, again.map(tag_of_long).transpose()?)))
}

async fn get(app: Arc<App>, asked: Asked, head_alone: bool) -> Answer {
    let Asked { database, table: name, key, transaction, conditions } = asked;
    let when = conditions.clone();
    let (value, open) = match transaction {
        Some(token) => {
            let read = move |open: &Arc<Open>, tx: &mut Transaction| {
                let table = table_in(tx, &name)?;
                Ok((read(|| Ok(tx.value_reader(&table, &key)?), &when)?, Arc::clone(open)))
            };
            app.transactions.run(&database, &token, read).await?
        }
        None => {
            let (open, table) = table(&app, &database, &name).await?;
            let read = move || {
                let find = |table: &Table| {
                    let snapshot = open.db.snapshot()?;
                    read(|| Ok(snapshot.value_reader(table, &key)?), &when)
                };
                Ok((on_table(&open, table, find)?, open))
            };
            hand_off(read).await?
        }
    };
    match value {
        None => {
            conditions.check(None)?;
            Ok(absent())
        }
        Some(Found::Whole(value)) => whole(&app, value, &conditions, head_alone),
        Some(Found::Long(_, tag)) if conditions.has_this_already(tag.as_deref().unwrap_or_default())? => {
            Ok(not_modified())
        }
        Some(Found::Long(reader, _)) if head_alone => {
            let mut response = found(Body::empty());
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(reader.len_bytes()));
            Ok(response)
        }
        Some(Found::Long(reader, _)) => Ok(LongValue::response(reader, open, app.stream_permit().await?)),
    }
}

/// 304: the client has it.
fn not_modified() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// 200 with a value that is in memory, or 304 where the client has it.
pub fn whole(app: &App, value: Vec<u8>, conditions: &Conditions, head_alone: bool) -> Answer {
    let tag = etag(&value);
    let header = etag_header(&tag);
    let mut response = if conditions.has_this_already(&tag)? {
        not_modified()
    } else {
        let length = HeaderValue::from(value.len());
        let mut response = found(if head_alone { Body::empty() } else { app.body_of(value)? });
        if head_alone {
            response.headers_mut().insert(CONTENT_LENGTH, length);
        }
        response
    };
    response.headers_mut().insert(ETAG, header);
    Ok(response)
}

/// The table as the transaction sees it.
pub fn table_in(tx: &Transaction, name: &str) -> Answer<Table> {
    tx.table(name)?.ok_or_else(|| Problem::not_found(format!("there is no table {name:?}")))
}

async fn put(app: Arc<App>, asked: Asked, uri: &Uri, body: RequestBody) -> Answer {
    let durability = durability(&app, uri)?;
    let Asked { database, table: name, key, transaction, conditions } = asked;
    // Before the body, so that nobody sends megabytes to a table that is not there.
    let place = match &transaction {
        Some(_) => None,
        None => Some(table(&app, &database, &name).await?),
    };
    let received = app.reception.receive(body, u64::MAX).await?;
    match (received, place) {
        (Received::Whole(value, counted), None) => {
            let token = transaction.unwrap_or_default();
            let tag = etag(&value);
            let put = move |tx: &mut Transaction| {
                let _counted = counted;
                let table = table_in(tx, &name)?;
                conditions.check_in(tx, &table, &key)?;
                Ok(tx.put(&table, &key, &value)?)
            };
            app.transactions.run(&database, &token, move |_, tx| put(tx)).await?;
            Ok(stored(None, &tag))
        }
        (Received::Long(_, mut rest), None) => {
            rest.discard().await;
            let detail = "a value of more than 1 MiB cannot be put within an interactive transaction; put \
                          it with a request of its own";
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail))
        }
        (Received::Long(begin, rest), Some((open, table))) => {
            let _permit = app.stream_permit().await?;
            let number = long_value::put(open, table, key, begin, rest, durability, conditions).await?;
            Ok(done(Some(number)))
        }
        (Received::Whole(value, counted), Some((open, table))) => {
            let tag = etag(&value);
            let asked = Asks { key, change: Change::Put(value), durability, conditions, counted };
            let committed = change(open, table, asked).await?;
            let mut response = stored(Some(committed.number), &tag);
            slow::say(&mut response, committed.phases);
            Ok(response)
        }
    }
}

fn stored(commit: Option<u64>, tag: &str) -> Response<Body> {
    let mut response = done(commit);
    response.headers_mut().insert(ETAG, etag_header(tag));
    response
}

async fn delete(app: Arc<App>, asked: Asked, uri: &Uri) -> Answer {
    let durability = durability(&app, uri)?;
    let Asked { database, table: name, key, transaction, conditions } = asked;
    if let Some(token) = transaction {
        let delete = move |tx: &mut Transaction| {
            let table = table_in(tx, &name)?;
            conditions.check_in(tx, &table, &key)?;
            Ok(tx.delete(&table, &key)?)
        };
        app.transactions.run(&database, &token, move |_, tx| delete(tx)).await?;
        return Ok(done(None));
    }
    let (open, table) = table(&app, &database, &name).await?;
    let asked = Asks { key, change: Change::Delete, durability, conditions, counted: None };
    let committed = change(open, table, asked).await?;
    let mut response = done(Some(committed.number));
    slow::say(&mut response, committed.phases);
    Ok(response)
}

/// A write that is asked for.
struct Asks {
    key: Vec<u8>,
    change: Change,
    durability: Durability,
    conditions: Conditions,
    counted: Counted,
}

/// Makes it: with others in one commit, or by itself if it depends on what is there.
async fn change(open: Arc<Open>, table: Table, asked: Asks) -> Answer<Committed> {
    let Asks { key, change, durability, conditions, counted } = asked;
    if !conditions.are_there() {
        return match open.writer.write(table.clone(), key.clone(), change.clone(), durability).await {
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                open.forget(table.name());
                let shared = Arc::clone(&open);
                let table = hand_off(move || shared.table(table.name())).await?;
                open.writer.write(table, key, change, durability).await
            }
            written => written,
        };
    }
    hand_off(move || {
        let _counted = counted;
        let swap = |tx: &mut Transaction, table: &Table| {
            conditions.check_in(tx, table, &key)?;
            match &change {
                Change::Put(value) => tx.put(table, &key, value)?,
                Change::Delete => tx.delete(table, &key)?,
            }
            Ok(())
        };
        let swap = |table: &Table| commit(&open.db, durability, |tx| swap(tx, table));
        let ((), number) = on_table(&open, table, swap)?;
        Ok(Committed { number, phases: None })
    })
    .await
}
