//! The handlers of Hrana.

use crate::access::auth::Gatekeeper;
use crate::access::tokens::Scope;
use crate::calls::call::{Call, JSON_BYTES};
use crate::calls::parts::{IsShipped, Parts};
use crate::data::held::Data;
use crate::data::hrana_streams::{HranaStreams, Session};
use crate::data::open::Open;
use crate::data::queried::Queried;
use crate::limits::handoff::hand_off;
use crate::limits::receive::{Counted, RequestBody};
use crate::limits::room::Room;
use crate::watch::slow::Asked;
use crate::wire::body::{Body, counted};
use crate::wire::digits::{hex, random};
use crate::wire::pipe::pipe;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{NDJSON, fixed, json, streamed, typed};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use hrana::{Cursor, Failure, Lines, Owner, Pipeline, Place, Reply, Stop, Stream};
use pando::{Durability, TransactionOptions};
use serde_json::json as object;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// The bytes of a reply to a pipeline from which statements are refused.
const MOST_REPLY_BYTES: usize = 16 << 20;

/// The parts that the handlers use.
#[derive(Debug)]
pub struct Door<E: Queried> {
    data: Arc<Data<E>>,
    room: Arc<Room>,
    keeper: Arc<Gatekeeper>,
    hrana: Arc<HranaStreams>,
    is_shipped: IsShipped,
}

impl<E: Queried> Door<E> {
    /// Returns the parts.
    pub fn of(parts: &Parts<E>) -> Self {
        Door {
            data: parts.data(),
            room: parts.room(),
            keeper: parts.keeper(),
            hrana: parts.hrana(),
            is_shipped: parts.shipping,
        }
    }

    fn check_on(&self) -> Answer<()> {
        if self.hrana.is_on {
            return Ok(());
        }
        Err(Problem::not_found("this server does not speak Hrana: start it with --hrana"))
    }
}

/// Handles GET: the version is spoken.
pub async fn probe<E: Queried>(door: Door<E>) -> Answer {
    door.check_on()?;
    Ok(json(StatusCode::OK, &object!({ "protocol": "hrana", "encoding": "json" })))
}

/// Handles POST of a pipeline.
pub async fn pipeline<E: Queried>(door: Door<E>, call: Call, body: RequestBody) -> Answer {
    door.check_on()?;
    let (bytes, memory) = door.room.reception.receive_whole(body, JSON_BYTES).await?;
    let asks = Pipeline::read(&bytes).map_err(problem)?;
    let text = asks.first_text().map(Asked::new);
    let answer = Turn::begin(&door, &call, memory).await?.run_pipeline(asks).await;
    Ok(noted(E::explained(&door.data.databases, answer, &call.uri), text))
}

/// Handles POST of a cursor. Its reply is sent while its statements run, so it cannot wait until commits are in a
/// bucket.
pub async fn cursor<E: Queried>(door: Door<E>, call: Call, body: RequestBody) -> Answer {
    door.check_on()?;
    if door.is_shipped == IsShipped::InSync {
        let detail = "this server acknowledges a write when it is in the bucket (--ship-mode sync), which a \
                      cursor does not wait for: send the statements to /v3/pipeline";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail));
    }
    let (bytes, memory) = door.room.reception.receive_whole(body, JSON_BYTES).await?;
    let asks = Cursor::read(&bytes).map_err(problem)?;
    let text = asks.batch.first_text().map(Asked::new);
    let answer = Turn::begin(&door, &call, memory).await?.run_cursor(asks).await;
    Ok(noted(E::explained(&door.data.databases, answer, &call.uri), text))
}

/// Returns the response with the text that the list of slow requests shows.
fn noted(answer: Answer, text: Option<Asked>) -> Response<Body> {
    let mut response = answer.unwrap_or_else(|problem| problem.hrana_response());
    if let Some(text) = text {
        response.extensions_mut().insert(text);
    }
    response
}

/// A request that may run its statements now.
struct Turn<E: Queried> {
    hrana: Arc<HranaStreams>,
    room: Arc<Room>,
    open: Arc<Open<E>>,
    durability: Durability,
    owner: Owner,
    may_write: bool,
    time: Duration,
    _permit: OwnedSemaphorePermit,
}

impl<E: Queried> Turn<E> {
    /// Opens the database and waits for a place among the requests that run statements. `memory` is that of the body.
    async fn begin(door: &Door<E>, call: &Call, memory: Counted) -> Answer<Self> {
        let name = call.target().database();
        let may_write = door.keeper.rights(&call.headers).in_database(name) >= Some(Scope::Write);
        let open = door.data.database(name).await?;
        let time = door.room.statement_time(None)?;
        let permit = door.room.statement_permit(time).await?;
        // Few requests run at a time, which bounds the memory of their statements.
        drop(memory);
        call.count_results()?;
        Ok(Turn {
            hrana: Arc::clone(&door.hrana),
            room: Arc::clone(&door.room),
            open,
            durability: door.data.durability,
            owner: owner(&call.headers, name),
            may_write,
            time,
            _permit: permit,
        })
    }

    async fn run_pipeline(self, asks: Pipeline) -> Answer {
        let stop = Stop::after(self.time);
        let _leaving = Leaving(stop.clone());
        let (body, memory) = hand_off(move || {
            let mut held = self.stream(asks.baton.as_deref(), !asks.closes())?;
            let memory = Arc::new(Mutex::new(None));
            let mut reply =
                Reply::new(MOST_REPLY_BYTES, reserving(Arc::clone(&self.room), Arc::clone(&memory)));
            held.session.stream.run(asks.requests, self.may_write, &stop, &mut reply);
            let baton = if stop.is_cancelled() { None } else { self.keep(held)? };
            let memory = memory.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok((reply.finish(baton.as_deref()), memory))
        })
        .await?;
        let body = match memory {
            Some(memory) => Body::whole(counted(body, memory)),
            None => Body::whole(body),
        };
        Ok(typed("application/json", Response::new(body)))
    }

    async fn run_cursor(self, asks: Cursor) -> Answer {
        let (writer, mut reader) = pipe(Instant::now() + self.time);
        let work = move || {
            let mut held = match self.stream(asks.baton.as_deref(), true) {
                Ok(held) => held,
                Err(problem) => return writer.fail(problem),
            };
            let baton = match new_baton() {
                Ok(baton) => baton,
                Err(problem) => return writer.fail(problem),
            };
            let watch = writer.watch();
            let stop = Stop::after_or(self.time, move || watch.is_over());
            let writer = Arc::new(writer);
            let sending = Arc::clone(&writer);
            let mut lines = Lines::new(Some(&baton), move |piece| {
                let piece = Bytes::from(piece);
                sending.write(piece.clone()).map_err(|_| piece.into())
            });
            held.session.stream.run_cursor(&asks.batch, self.may_write, &stop, &mut lines);
            // The stream is there before its client has read the last line.
            self.keep_as(&baton, held);
            drop(self);
            let last = lines.finish();
            if let Some(writer) = Arc::into_inner(writer) {
                writer.finish(Bytes::from(last));
            }
        };
        tokio::task::spawn_blocking(work);
        let first = reader.next().await.transpose()?.unwrap_or_default();
        if reader.is_over() {
            return Ok(fixed(NDJSON, first));
        }
        Ok(streamed(NDJSON, axum::body::Body::new(reader.with_first(first))))
    }

    /// Returns the stream of a baton, or a new one. A stream that `stays` needs a place.
    fn stream(&self, baton: Option<&str>, stays: bool) -> Answer<Held> {
        if let Some(baton) = baton {
            let (place, session) = self.hrana.batons.take(baton, &self.owner).map_err(problem)?;
            return Ok(Held { session, place: Some(place) });
        }
        let place = if stays { Some(self.hrana.batons.place().map_err(problem)?.0) } else { None };
        let connection = E::sql(&self.open).connect().map_err(pando::Error::from)?;
        let options =
            TransactionOptions { durability: self.durability, ..E::transaction_options(&self.open.db) };
        connection.set_transaction_options(options);
        let stream = Stream::new(connection).map_err(problem)?;
        Ok(Held { session: Session::new(stream, self.open.clone()), place })
    }

    /// Keeps the stream under a new baton, unless it is closed.
    fn keep(&self, held: Held) -> Answer<Option<String>> {
        if held.session.stream.is_closed() || held.place.is_none() {
            return Ok(None);
        }
        let baton = new_baton()?;
        self.keep_as(&baton, held);
        Ok(Some(baton))
    }

    fn keep_as(&self, baton: &str, held: Held) {
        let Held { session, place: Some(place) } = held else { return };
        let is_spare = session.stream.is_autocommit();
        self.hrana.batons.keep(baton, place, self.owner, session, is_spare);
    }
}

/// A stream in use, and its place if it is to be kept.
struct Held {
    session: Session,
    place: Option<Place>,
}

/// Stops the statements when the client leaves, and the future of its request is dropped.
struct Leaving(Stop);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Returns a baton that cannot be guessed.
fn new_baton() -> Answer<String> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Returns who may use a stream: the sender of these headers, in this database.
fn owner(headers: &HeaderMap, database: &str) -> Owner {
    let mut hash = Sha256::new();
    hash.update(database);
    hash.update([0]);
    hash.update(headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes()));
    hash.finalize().into()
}

/// Returns what reserves memory of responses, which `memory` then holds.
fn reserving(
    room: Arc<Room>,
    memory: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
) -> impl FnMut(usize) -> bool + Send {
    move |bytes| {
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        let have = memory.as_ref().map_or(0, |memory| memory.num_permits() * 1024);
        match room.answer_memory_beyond(have, bytes) {
            Ok(None) => true,
            Ok(Some(more)) => {
                match &mut *memory {
                    Some(memory) => memory.merge(more),
                    none => *none = Some(more),
                }
                true
            }
            Err(_) => false,
        }
    }
}

/// Returns the problem of a request that failed as a whole.
fn problem(failure: Failure) -> Problem {
    let (status, kind) = match failure.code() {
        "PROTO_ERROR" => (StatusCode::BAD_REQUEST, "proto-error"),
        "TOO_MANY_STATEMENTS" => (StatusCode::BAD_REQUEST, "too-many-statements"),
        "STREAM_EXPIRED" => (StatusCode::BAD_REQUEST, "stream-expired"),
        "STREAM_LIMIT" => (StatusCode::TOO_MANY_REQUESTS, "stream-limit"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    };
    let mut problem = Problem::new(status, kind, failure.message());
    if status == StatusCode::TOO_MANY_REQUESTS {
        problem.retry_after_s = Some(1);
    }
    problem
}
