//! The `/v0` contract: one table of keys and values, in the form that existing load scripts and test suites use.
//!
//! | request | response |
//! |---|---|
//! | `GET /v0/entity?id=K` | 200 and the value, or 404 |
//! | `PUT /v0/entity?id=K` | 201; the body is the value, also an empty one |
//! | `DELETE /v0/entity?id=K` | 202, also where K is absent |
//! | `GET /v0/status` | 200 |
//! | `GET /v0/entities?start=S[&end=E]` | 200 and the records of [S, E), a chunk each: `key`, a line feed, `value` |
//!
//! Without `id`, or without `start`: 400. Another method: 405. Any other path under `/v0`: 400.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{FULL, LATE, MISSING, TOO_LARGE, VALUE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::parts::Parts;
use crate::calls::target::Target;
use crate::data::conditions::Conditions;
use crate::data::open::Open;
use crate::data::served::Served;
use crate::data::v0::EntityTable;
use crate::data::writer::{Change, Committed, Life};
use crate::limits::handoff::hand_off;
use crate::limits::receive::{Received, RequestBody};
use crate::limits::room::Room;
use crate::send::long_value::{self, LongValue, LongValues};
use crate::send::records::{Records, RecordsBody, Which, read_all};
use crate::watch::observe::Kind;
use crate::watch::slow;
use crate::wire::body::Body;
use crate::wire::form::Form;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{COMMIT, absent, empty, found, typed, whole};
use crate::wire::target::{decode, parameter};
use axum::http::{HeaderMap, Response, StatusCode};
use pando::{Durability, ReadTables, Span, Table};
use std::borrow::Cow;
use std::future::ready;
use std::ops::Bound;
use std::sync::Arc;

/// The path of single records.
const ENTITY: &str = "/v0/entity";
/// The longest value that is sent from memory.
const WHOLE_BYTES: u64 = 1 << 20;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        ENTITY,
        Access::Default(Scope::Read),
        Kind::Get,
        "Get a value of the default table",
        |parts, call, _| Box::pin(get(parts.entity(), parts.room(), call)),
    )
    .recalled_by(recall)
    .takes(&["id"])
    .responses(&[VALUE, MISSING])
    .sends(&["application/octet-stream"]),
    on_both!(
        "PUT",
        ENTITY,
        Access::Default(Scope::Write),
        Kind::Put,
        "Set a key of the default table",
        |parts, call, body| Box::pin(put(parts.entity(), parts.room(), parts.data.durability, call, body)),
    )
    .takes(&["id"])
    .receives("value")
    .responses(&[(201, "Stored"), TOO_LARGE, LATE, FULL])
    .sends(&[]),
    on_both!(
        "DELETE",
        ENTITY,
        Access::Default(Scope::Write),
        Kind::Delete,
        "Delete a key of the default table",
        |parts, call, _| Box::pin(delete(parts.entity(), parts.data.durability, call)),
    )
    .takes(&["id"])
    .responses(&[(202, "Deleted, or was not there"), FULL])
    .sends(&[]),
    on_both!(
        "GET",
        "/v0/entities",
        Access::Default(Scope::Read),
        Kind::Range,
        "Get the records of [start, end), one chunk each: key, line feed, value",
        |parts, call, _| Box::pin(range(parts.entity(), parts.room(), call)),
    )
    .takes(&["from", "end"])
    .responses(&[(200, "The records")])
    .sends(&["application/octet-stream"]),
    on_both!(
        "GET",
        "/v0/status",
        Access::Default(Scope::Read),
        Kind::Other,
        "Check that the server responds",
        |_, _, _| Box::pin(ready(Ok(whole("text/plain; charset=utf-8", "serving\n")))),
    )
    .responses(&[(200, "It does")])
    .sends(&["text/plain"])
    .at_once(),
];

/// Responds to a get if the value is in memory.
fn recall(parts: &Parts, target: Target<'_>, _: &HeaderMap) -> Option<Response<Body>> {
    // Anything else is left to the handler, which refuses other parameters.
    let id = target.query()?.strip_prefix("id=").filter(|id| !id.is_empty())?;
    let id = match id.bytes().position(|byte| byte == b'&' || byte == b'%') {
        None => Cow::Borrowed(id.as_bytes()),
        Some(_) if id.contains('&') => return None,
        Some(_) => decode(id).ok()?,
    };
    match parts.entity.with_known(|open, table| open.resident(table, &id))?? {
        Some(value) => Some(parts.room.body_of(value).map_or_else(|busy| busy.response(), found)),
        None => Some(absent()),
    }
}

/// Returns a parameter that must be present and not empty.
fn required(query: Option<&str>, name: &str) -> Answer<Vec<u8>> {
    match parameter(query, name)? {
        Some(bytes) if !bytes.is_empty() => Ok(bytes.into_owned()),
        _ => Err(Problem::bad_request(format!("the parameter `{name}` is missing or empty"))),
    }
}

async fn get<E: Served>(entity: Arc<EntityTable<E>>, room: Arc<Room>, call: Call) -> Answer {
    let key = required(call.target().query(), "id")?;
    let reader = hand_off(move || {
        entity.on_table(|open: &Arc<Open<E>>, table: &Table| {
            let reader = E::read_one(&open.db, table, &key)?;
            Ok(reader.map(|reader| (reader, Arc::clone(open))))
        })
    });
    let Some((reader, open)) = reader.await? else { return Ok(absent()) };
    if reader.len_bytes() > WHOLE_BYTES {
        let permit = room.stream_permit().await?;
        let range = 0..reader.len_bytes();
        return Ok(LongValue::response(reader, open, permit, range));
    }
    Ok(found(room.body_of(hand_off(move || Ok(read_all(reader)?)).await?)?))
}

async fn put<E: Served + LongValues>(
    entity: Arc<EntityTable<E>>,
    room: Arc<Room>,
    durability: Durability,
    call: Call,
    body: RequestBody,
) -> Answer {
    let key = required(call.target().query(), "id")?;
    let longest_bytes = E::longest_bytes(&entity.open()?.db);
    let received = room.reception.receive(body, longest_bytes).await?;
    let committed = match received {
        // The memory stays counted until the value is committed.
        Received::Whole(value, _counted) => Some(change(&entity, key, Change::Put(value), durability).await?),
        Received::Long(begin, rest) => {
            let (shared, id) = (Arc::clone(&entity), key.clone());
            // The table may have been dropped. It could not be created again later.
            let there = move |open: &Arc<Open<E>>, table: &Table| {
                E::read(&open.db, |snapshot| Ok(snapshot.contains(table, &id)?))?;
                Ok((Arc::clone(open), table.clone()))
            };
            let (open, table) = hand_off(move || shared.on_table(there)).await?;
            let conditions = Conditions::default();
            let put = long_value::Put { table, key, life: Life::Unlimited, durability, conditions };
            E::put_long(&room, open, put, begin, rest).await?;
            None
        }
    };
    Ok(written(StatusCode::CREATED, committed))
}

async fn delete<E: Served>(entity: Arc<EntityTable<E>>, durability: Durability, call: Call) -> Answer {
    let key = required(call.target().query(), "id")?;
    let committed = change(&entity, key, Change::Delete, durability).await?;
    Ok(written(StatusCode::ACCEPTED, Some(committed)))
}

async fn change<E: Served>(
    entity: &Arc<EntityTable<E>>,
    key: Vec<u8>,
    change: Change,
    durability: Durability,
) -> Answer<Committed> {
    let (open, known) = entity.known()?;
    if let Some(table) = known {
        match E::write_one(&open, table, key.clone(), change.clone(), durability).await {
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
            done => return done,
        }
    }
    let shared = Arc::clone(entity);
    let (open, table) = hand_off(move || shared.made_again()).await?;
    E::write_one(&open, table, key, change, durability).await
}

async fn range<E: Served>(entity: Arc<EntityTable<E>>, room: Arc<Room>, call: Call) -> Answer {
    let query = call.target().query();
    let start = required(query, "start")?;
    let end = parameter(query, "end")?.map(|end| end.into_owned());
    let begun = hand_off(move || {
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let which = Which::Forwards(Span::between(Bound::Included(&start), end));
        entity.on_table(|open: &Arc<Open<E>>, table: &Table| {
            Records::begin(open, table, &which, Form::Lines, None)
        })
    });
    let (records, first) = begun.await?;
    Ok(typed("application/octet-stream", RecordsBody::response(&room, records, first).await?))
}

fn written(status: StatusCode, committed: Option<Committed>) -> Response<Body> {
    let mut response = empty(status);
    if let Some(number) = committed.and_then(|committed| committed.number) {
        response.headers_mut().insert(COMMIT, number.into());
    }
    slow::say(&mut response, committed.and_then(|committed| committed.phases));
    response
}
