//! Single records: `/v1/databases/{database}/tables/{table}/entries/{key}`.

use crate::access::tokens::Scope;
use crate::calls::call::{Call, TRANSACTION};
use crate::calls::meanings::{CONFLICT, DONE, FAILED, FULL, LATE, MISSING, TOO_LARGE, VALUE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::part::{AskedPart, Part, beyond, partial};
use crate::calls::parts::Parts;
use crate::calls::query::{durability, entry_ttl, flag};
use crate::calls::target::Target;
use crate::data::conditions::{Conditions, etag, etag_header, tag_of_long};
use crate::data::engine::Engine;
use crate::data::held::{Data, on_table, table_in};
use crate::data::open::Open;
use crate::data::served::Served;
use crate::data::writer::{Change, Committed, Life};
use crate::limits::handoff::hand_off;
use crate::limits::receive::{Counted, Received, RequestBody};
use crate::limits::room::Room;
use crate::send::long_value::{self, LongValue, LongValues};
use crate::send::records::read_all;
use crate::watch::observe::Kind;
use crate::watch::slow;
use crate::wire::body::Body;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{absent, done, found, not_modified};
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, ETAG, IF_MATCH, IF_NONE_MATCH, RANGE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use pando::{Durability, ReadTables, Table, ValueReader, WriteTables};
use std::sync::Arc;

/// The longest value that is sent from memory, with its ETag.
const WHOLE_BYTES: u64 = 1 << 20;

const PATH: &str = "/v1/databases/{database}/tables/{table}/entries/{key}";

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        PATH,
        Access::Database(Scope::Read),
        Kind::Get,
        "Get the value of a key",
        |parts, call, _| Box::pin(get(parts.data(), parts.room(), call)),
    )
    .recalled_by(recall)
    .takes(&["if-match", "if-none-match", "range", "if-range", "transaction"])
    .responses(&[
        VALUE,
        (206, "The part of the value that `range` asks for"),
        (304, "The client has it"),
        MISSING,
        CONFLICT,
        FAILED,
        (416, "The value ends before the range; `content-range` has its length"),
    ])
    .sends(&["application/octet-stream"]),
    on_both!(
        "HEAD",
        PATH,
        Access::Database(Scope::Read),
        Kind::Get,
        "Get the length and the tag of a value",
        |parts, call, _| Box::pin(head(parts.data(), parts.room(), call)),
    )
    .takes(&["if-match", "if-none-match", "transaction"])
    .responses(&[(200, "The key exists"), (304, "The client has it"), MISSING, CONFLICT, FAILED]),
    on_both!(
        "PUT",
        PATH,
        Access::Database(Scope::Write),
        Kind::Put,
        "Put a value; with a condition, compare and swap",
        |parts, call, body| Box::pin(put(parts.data(), parts.room(), call, body)),
    )
    .takes(&["if-match", "if-none-match", "durability", "entry_ttl", "keep_ttl", "transaction"])
    .receives("value")
    .responses(&[DONE, MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL]),
    on_both!(
        "DELETE",
        PATH,
        Access::Database(Scope::Write),
        Kind::Delete,
        "Delete a key; succeeds if it does not exist",
        |parts, call, _| Box::pin(delete(parts.data(), call)),
    )
    .takes(&["if-match", "if-none-match", "durability", "transaction"])
    .responses(&[DONE, MISSING, CONFLICT, FAILED, FULL]),
];

/// Responds to a plain get if the value is in memory.
fn recall(parts: &Parts, target: Target<'_>, headers: &HeaderMap) -> Option<Response<Body>> {
    // A request has few headers: this costs less than looking up each of these.
    let asks_for_more =
        || headers.keys().any(|name| [IF_MATCH, IF_NONE_MATCH, RANGE, TRANSACTION].contains(name));
    if target.query().is_some() || asks_for_more() {
        return None;
    }
    let (table, key) = (target.table().ok()?, target.key().ok()?);
    let value = parts.data.databases.with_open(target.database(), |open| {
        open.with_known_table(&table, |table| open.resident(table, &key))
    });
    match value??? {
        Some(value) => {
            let answer = whole(&parts.room, value, &Conditions::default(), &AskedPart::default());
            Some(answer.unwrap_or_else(|busy| busy.response()))
        }
        None => Some(absent()),
    }
}

/// The record that a request names.
struct Asked {
    database: String,
    table: String,
    key: Vec<u8>,
    transaction: Option<String>,
    conditions: Conditions,
}

impl Asked {
    fn parse(call: &Call) -> Answer<Self> {
        let target = call.target();
        Ok(Asked {
            database: target.database().to_owned(),
            table: target.table()?.into_owned(),
            key: target.key()?.into_owned(),
            transaction: call.transaction()?,
            conditions: Conditions::from_headers(&call.headers)?,
        })
    }
}

/// A value, as far as it was read.
enum Found {
    Whole(Vec<u8>),
    /// A long value, with its tag if a condition needs it. The tag takes another read of the value.
    Long(ValueReader, Option<String>),
}

fn read(find: impl Fn() -> Answer<Option<ValueReader>>, needs_tag: bool) -> Answer<Option<Found>> {
    let Some(reader) = find()? else { return Ok(None) };
    if reader.len_bytes() <= WHOLE_BYTES {
        return Ok(Some(Found::Whole(read_all(reader)?)));
    }
    let again = if needs_tag { find()? } else { None };
    Ok(Some(Found::Long(reader, again.map(tag_of_long).transpose()?)))
}

/// What a request wants of a value.
enum Wanted {
    /// The value, or a part of it.
    Bytes(AskedPart),
    /// Its length and its tag.
    Head,
}

async fn get<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call) -> Answer {
    let part = AskedPart::from_headers(&call.headers);
    look(data, room, call, Wanted::Bytes(part)).await
}

async fn look<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call, wanted: Wanted) -> Answer {
    let Asked { database, table: name, key, transaction, conditions } = Asked::parse(&call)?;
    let needs_tag = conditions.name_tags() || matches!(&wanted, Wanted::Bytes(part) if part.names_tag());
    let (value, open) = match transaction {
        Some(token) => {
            let read = move |open: &Arc<Open<E>>, tx: &mut E::Transaction| {
                let table = table_in(tx, &name)?;
                Ok((read(|| Ok(tx.value_reader(&table, &key)?), needs_tag)?, Arc::clone(open)))
            };
            data.transactions.run(&database, &token, read).await?
        }
        None => {
            let (open, table) = data.table(&database, &name).await?;
            let read = move || {
                let find = |table: &Table| {
                    if !needs_tag {
                        return read(|| Ok(E::read_one(&open.db, table, &key)?), false);
                    }
                    // A long value is read twice then, and must be the same.
                    E::read(&open.db, |snapshot| read(|| Ok(snapshot.value_reader(table, &key)?), true))
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
        Some(Found::Whole(value)) => match wanted {
            Wanted::Bytes(part) => whole(&room, value, &conditions, &part),
            Wanted::Head => whole_head(&value, &conditions),
        },
        Some(Found::Long(_, tag)) if conditions.has_this_already(tag.as_deref().unwrap_or_default())? => {
            Ok(not_modified())
        }
        Some(Found::Long(reader, tag)) => match wanted {
            Wanted::Bytes(part) => long(&room, reader, open, &part, tag.as_deref()).await,
            Wanted::Head => {
                let mut response = found(Body::empty());
                let headers = response.headers_mut();
                headers.insert(CONTENT_LENGTH, HeaderValue::from(reader.len_bytes()));
                headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
                // A condition needed it, so it is known.
                if let Some(tag) = tag {
                    headers.insert(ETAG, etag_header(&tag));
                }
                Ok(response)
            }
        },
    }
}

/// Returns a long value, or a part of it.
async fn long<E: Engine>(
    room: &Room,
    reader: ValueReader,
    open: Arc<Open<E>>,
    part: &AskedPart,
    tag: Option<&str>,
) -> Answer {
    let len_bytes = reader.len_bytes();
    let mut response = match part.of(len_bytes, tag) {
        Part::Beyond => return Ok(beyond(len_bytes)),
        Part::All => LongValue::response(reader, open, room.stream_permit().await?, 0..len_bytes),
        Part::Bytes { start, end } => {
            let permit = room.stream_permit().await?;
            partial(LongValue::response(reader, open, permit, start..end), start, end, len_bytes)
        }
    };
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

/// Responds without the value, but with its length.
async fn head<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call) -> Answer {
    let mut response = look(data, room, call, Wanted::Head).await?;
    response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(0));
    Ok(response)
}

/// Returns 200 with a value that is in memory or 206 with a part of it, or 304 if the client already has it.
fn whole(room: &Room, value: Vec<u8>, conditions: &Conditions, part: &AskedPart) -> Answer {
    let tag = etag(&value);
    let header = etag_header(&tag);
    let len_bytes = value.len() as u64;
    let mut response = if conditions.has_this_already(&tag)? {
        not_modified()
    } else {
        match part.of(len_bytes, Some(&tag)) {
            Part::All => found(room.body_of(value)?),
            Part::Beyond => beyond(len_bytes),
            Part::Bytes { start, end } => {
                // It is copied: a short part is not counted, so it must not keep the memory of the whole value.
                let bytes = value[start as usize..end as usize].to_vec();
                partial(found(room.body_of(bytes)?), start, end, len_bytes)
            }
        }
    };
    response.headers_mut().insert(ETAG, header);
    Ok(response)
}

/// Returns the length and the tag of a value that is in memory, or 304 if the client already has it.
fn whole_head(value: &[u8], conditions: &Conditions) -> Answer {
    let tag = etag(value);
    let mut response = if conditions.has_this_already(&tag)? { not_modified() } else { found(Body::empty()) };
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(value.len()));
    headers.insert(ETAG, etag_header(&tag));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

async fn put<E: Served + LongValues>(
    data: Arc<Data<E>>,
    room: Arc<Room>,
    call: Call,
    body: RequestBody,
) -> Answer {
    let asked = Asked::parse(&call)?;
    let durability = durability::<E>(call.target().query(), data.durability)?;
    let life = life(call.target().query())?;
    let Asked { database, table: name, key, transaction, conditions } = asked;
    // This check comes before the body, so that no client sends megabytes to a missing table.
    let place = match &transaction {
        Some(_) => None,
        None => Some(data.table(&database, &name).await?),
    };
    let longest_bytes = place.as_ref().map_or(u64::MAX, |(open, _)| E::longest_bytes(&open.db));
    let received = room.reception.receive(body, longest_bytes).await?;
    match (received, place) {
        (Received::Whole(value, counted), None) => {
            let token = transaction.unwrap_or_default();
            let tag = etag(&value);
            let put = move |tx: &mut E::Transaction| {
                let _counted = counted;
                let table = table_in(tx, &name)?;
                conditions.check_in(tx, &table, &key)?;
                Ok(put_of(value, life).put::<E>(tx, &table, &key)?)
            };
            data.transactions.run(&database, &token, move |_, tx| put(tx)).await?;
            Ok(stored(None, &tag))
        }
        (Received::Long(_, mut rest), None) => {
            rest.discard().await;
            let detail = "a value of more than 1 MiB cannot be put within an interactive transaction; put \
                          it with a request of its own";
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail))
        }
        (Received::Long(begin, rest), Some((open, table))) => {
            let put = long_value::Put { table, key, life, durability, conditions };
            Ok(done(E::put_long(&room, open, put, begin, rest).await?))
        }
        (Received::Whole(value, counted), Some((open, table))) => {
            let tag = etag(&value);
            let asked = Asks { key, change: put_of(value, life), durability, conditions, counted };
            let committed = change(open, table, asked).await?;
            let mut response = stored(committed.number, &tag);
            slow::say(&mut response, committed.phases);
            Ok(response)
        }
    }
}

/// Returns how long the entry that is put lives.
fn life(query: Option<&str>) -> Answer<Life> {
    match (entry_ttl(query)?, flag(query, "keep_ttl")?) {
        (Some(_), true) => Err(Problem::bad_request("`ttl_ms` and `keep_ttl` exclude each other")),
        (Some(ttl), false) => Ok(Life::For(ttl)),
        (None, true) => Ok(Life::AsBefore),
        (None, false) => Ok(Life::Unlimited),
    }
}

fn put_of(value: Bytes, life: Life) -> Change {
    match life {
        Life::For(ttl) => Change::PutFor(value, ttl),
        Life::AsBefore => Change::PutKeeping(value),
        Life::Unlimited => Change::Put(value),
    }
}

fn stored(commit: Option<u64>, tag: &str) -> Response<Body> {
    let mut response = done(commit);
    response.headers_mut().insert(ETAG, etag_header(tag));
    response
}

async fn delete<E: Served>(data: Arc<Data<E>>, call: Call) -> Answer {
    let asked = Asked::parse(&call)?;
    let durability = durability::<E>(call.target().query(), data.durability)?;
    let Asked { database, table: name, key, transaction, conditions } = asked;
    if let Some(token) = transaction {
        let delete = move |tx: &mut E::Transaction| {
            let table = table_in(tx, &name)?;
            conditions.check_in(tx, &table, &key)?;
            Ok(tx.delete(&table, &key)?)
        };
        data.transactions.run(&database, &token, move |_, tx| delete(tx)).await?;
        return Ok(done(None));
    }
    let (open, table) = data.table(&database, &name).await?;
    let asked = Asks { key, change: Change::Delete, durability, conditions, counted: None };
    let committed = change(open, table, asked).await?;
    let mut response = done(committed.number);
    slow::say(&mut response, committed.phases);
    Ok(response)
}

/// The write that a request asks for.
struct Asks {
    key: Vec<u8>,
    change: Change,
    durability: Durability,
    conditions: Conditions,
    counted: Counted,
}

/// Makes the write: in a commit with others, or in a transaction of its own if it depends on the current value.
async fn change<E: Served>(open: Arc<Open<E>>, table: Table, asked: Asks) -> Answer<Committed> {
    let Asks { key, change, durability, conditions, counted } = asked;
    if !conditions.are_there() && !change.reads() {
        return match E::write_one(&open, table.clone(), key.clone(), change.clone(), durability).await {
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                open.forget(table.name());
                let shared = Arc::clone(&open);
                let table = hand_off(move || shared.table(table.name())).await?;
                E::write_one(&open, table, key, change, durability).await
            }
            written => written,
        };
    }
    hand_off(move || {
        let _counted = counted;
        let swap = |tx: &mut E::Transaction, table: &Table| {
            conditions.check_in(tx, table, &key)?;
            Ok(change.put::<E>(tx, table, &key)?)
        };
        let swap = |table: &Table| E::write(&open.db, durability, |tx| swap(tx, table));
        let ((), number) = on_table(&open, table, swap)?;
        Ok(Committed { number, phases: None })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;

    #[test]
    fn a_part_does_not_keep_the_memory_of_its_value() {
        let room = Room::new(&Limits::default());
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=5-5"))]);
        let part = AskedPart::from_headers(&headers);
        let response = whole(&room, vec![7; 1 << 20], &Conditions::default(), &part).unwrap();
        assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
        let Body::Whole(Some(bytes)) = response.into_body() else { panic!("it is in memory") };
        let bytes = bytes.try_into_mut().expect("nobody else has it");
        assert_eq!(bytes[..], [7]);
        assert!(bytes.capacity() < 1024, "{} bytes", bytes.capacity());
    }
}
