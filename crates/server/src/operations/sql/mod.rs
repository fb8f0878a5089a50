//! SQL: `POST /v1/databases/{database}/sql`.
//!
//! ```json
//! {"sql": "SELECT name FROM fruit WHERE price < ? ORDER BY name", "params": [3.5], "timeout_ms": 2000}
//! ```
//! 1. A single statement is a transaction of its own, which is repeated after a conflict. Several statements are one
//!    transaction together: all of them take effect, or none. There is no `BEGIN` over HTTP.
//! 2. With a token that may only read, or with `"read_only": true`, a request runs only statements that only read. Each
//!    is prepared and checked before it runs, and the connection also refuses to write.
//! 3. Statements are not trusted: see `sql::Connection::confine`. A limited number runs at a time, each on a thread and
//!    a connection of its own, within a time limit. When a client disconnects, its statements are cancelled. Other
//!    requests wait in order, for at most their own time limit.
//! 4. The results pass through a [`pipe`] in pieces (`results`, `columns`). Until the first piece is full, the status
//!    is open, and an error is a problem as for any request. After that an error is the last line, or the response
//!    breaks off.

mod parameters;
mod results;
#[cfg(feature = "arrow")]
mod columns;
mod output;
mod script;

use crate::access::auth::Gatekeeper;
use crate::access::tokens::Scope;
use crate::calls::call::{Call, json_body};
use crate::calls::query::durability;
use crate::data::held::Data;
use crate::data::queried::Queried;
use crate::limits::receive::{Counted, RequestBody};
use crate::limits::room::Room;
use crate::watch::slow::Asked;
#[cfg(feature = "arrow")]
use crate::wire::accept::{ARROW_STREAM, is_accepted};
use crate::wire::pipe::{Reader, pipe};
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{NDJSON, fixed, streamed};
use crate::wire::target::raw_parameter;
use axum::http::HeaderMap;
use output::{Form, Output};
use pando::TransactionOptions;
use parameters::Parameters;
use results::Format;
use script::{May, Script};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Instant;

/// The body of the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asks {
    sql: String,
    /// The parameters as they are written, which shows whether a number is an integer.
    params: Option<Box<RawValue>>,
    timeout_ms: Option<u64>,
    /// Whether the statements may only read, even if the token may write.
    #[serde(default)]
    read_only: bool,
}

/// Handles POST.
pub async fn run<E: Queried>(
    data: Arc<Data<E>>,
    room: Arc<Room>,
    keeper: Arc<Gatekeeper>,
    call: Call,
    body: RequestBody,
) -> Answer {
    let (asks, counted): (Asks, _) = json_body(&room.reception, body).await?;
    let text = Asked::new(&asks.sql);
    let shared = Arc::clone(&data);
    let answer = answer(data, room, keeper, &call, asks, counted).await;
    let answer = E::explained(&shared.databases, answer, &call.uri);
    let mut response = answer.unwrap_or_else(|problem| problem.response());
    response.extensions_mut().insert(text);
    Ok(response)
}

async fn answer<E: Queried>(
    data: Arc<Data<E>>,
    room: Arc<Room>,
    keeper: Arc<Gatekeeper>,
    call: &Call,
    asks: Asks,
    counted: Counted,
) -> Answer {
    call.no_part_of_transactions("SQL, of which several statements in one request are a transaction, is")?;
    let target = call.target();
    let name = target.database();
    let form = form_of(target.query(), &call.headers)?;
    let may = match keeper.rights(&call.headers).in_database(name) {
        None | Some(Scope::Read) => May::Read,
        Some(_) if asks.read_only => May::ReadAsAsked,
        Some(_) if E::is_replica(&data.databases) => May::ReadAsReplica,
        Some(_) => May::Write,
    };
    let durability = durability::<E>(target.query(), data.durability)?;
    let time = room.statement_time(asks.timeout_ms)?;
    let parameters = Parameters::read(asks.params.as_deref())?;
    let permit = room.statement_permit(time).await?;
    // Few requests run at a time, which bounds the memory of their statements. Those of waiting requests are counted.
    drop(counted);
    call.count_results()?;
    let open = data.database(name).await?;
    let waits_for_bucket = may == May::Write && E::waits_for_bucket(&data.databases);
    let (writer, reader) = pipe(Instant::now() + time);
    let work = move || {
        let options = TransactionOptions { durability, ..E::transaction_options(&open.db) };
        let script = Script { text: asks.sql, parameters, may, options, time };
        let watch = writer.watch();
        let mut output = Output::new(form, writer);
        let done = script.run(E::sql(&open), watch, &mut output);
        // The last piece acknowledges what was written.
        let done = done.and_then(|()| if waits_for_bucket { E::wait_until_shipped(&open) } else { Ok(()) });
        // They are dropped before the response is complete. A client that has read it finds the database unused, and a
        // free place.
        drop((open, permit));
        output.finish(done);
    };
    tokio::task::spawn_blocking(work);
    begin(reader, form).await
}

/// Waits for the first piece. An error before it becomes a problem.
async fn begin(mut reader: Reader, form: Form) -> Answer {
    let first = reader.next().await.transpose()?.unwrap_or_default();
    let kind = match form {
        Form::Text(Format::Ndjson) => NDJSON,
        Form::Text(Format::Json) => "application/json",
        Form::Text(Format::Csv) => "text/csv; charset=utf-8",
        #[cfg(feature = "arrow")]
        Form::Arrow => ARROW_STREAM,
    };
    if reader.is_over() {
        // The permits of statements bound it: it is hardly longer than a piece.
        return Ok(fixed(kind, first));
    }
    Ok(streamed(kind, axum::body::Body::new(reader.with_first(first))))
}

#[cfg_attr(not(feature = "arrow"), expect(unused_variables, reason = "only Arrow is asked for by a header"))]
fn form_of(query: Option<&str>, headers: &HeaderMap) -> Answer<Form> {
    match raw_parameter(query, "format") {
        #[cfg(feature = "arrow")]
        None if is_accepted(headers) => Ok(Form::Arrow),
        None | Some("ndjson") => Ok(Form::Text(Format::Ndjson)),
        Some("json") => Ok(Form::Text(Format::Json)),
        Some("csv") => Ok(Form::Text(Format::Csv)),
        Some(_) => Err(Problem::bad_request("`format` must be ndjson, json or csv")),
    }
}
