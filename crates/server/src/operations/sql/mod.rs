//! SQL: `POST /v1/databases/{database}/sql`.
//!
//! ```json
//! {"sql": "SELECT name FROM fruit WHERE price < ? ORDER BY name", "params": [3.5], "timeout_ms": 2000}
//! ```
//! 1. One statement is a transaction of its own, run again after a conflict. Several are one transaction together: all
//!    of it or nothing. There is no `BEGIN` over HTTP.
//! 2. A token that only reads, or a request that says `"read_only": true`, runs statements that only read: each is
//!    prepared, and looked at, before it runs, and the connection refuses to write besides.
//! 3. Statements are strangers': `sql::Connection::confine`. So many run at a time, each on a thread and a connection
//!    of its own, for so long; a client that goes away ends its own. Others wait for a place, in order, no longer than
//!    their statements may take.
//! 4. What they answer passes through a [`pipe`] piece by piece (`results`). Until the first piece is full, the status
//!    is open: a failure is a problem as of any request. After that it is the last line, or the answer breaks off.

mod parameters;
mod results;
mod script;

use crate::access::auth::{Gatekeeper, Need, Scope};
use crate::calls::call::{Call, json_body};
use crate::calls::query::durability;
use crate::data::held::Data;
use crate::limits::receive::{Counted, RequestBody};
use crate::limits::room::Room;
use crate::watch::slow::Asked;
use crate::wire::pipe::{Reader, pipe};
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{NDJSON, streamed, whole};
use crate::wire::target::raw_parameter;
use pando::TransactionOptions;
use parameters::Parameters;
use results::{Format, Results};
use script::{May, Script};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// The body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asks {
    sql: String,
    #[serde(default)]
    params: Value,
    timeout_ms: Option<u64>,
    /// Whether the statements only read, whatever the token may.
    #[serde(default)]
    read_only: bool,
}

/// POST.
pub async fn run(
    data: Arc<Data>,
    room: Arc<Room>,
    keeper: Arc<Gatekeeper>,
    call: Call,
    body: RequestBody,
) -> Answer {
    let (asks, counted): (Asks, _) = json_body(&room.reception, body).await?;
    let text = Asked::new(&asks.sql);
    let answer = answer(data, room, keeper, &call, asks, counted).await;
    let mut response = answer.unwrap_or_else(|problem| problem.response());
    response.extensions_mut().insert(text);
    Ok(response)
}

async fn answer(
    data: Arc<Data>,
    room: Arc<Room>,
    keeper: Arc<Gatekeeper>,
    call: &Call,
    asks: Asks,
    counted: Counted,
) -> Answer {
    call.no_part_of_transactions("SQL, of which several statements in one request are a transaction, is")?;
    let target = call.target();
    let name = target.database();
    let format = format_of(target.query())?;
    let may = match keeper.admit(&call.headers, Need::In(name, Scope::Write)) {
        Ok(_) if asks.read_only => May::ReadAsAsked,
        Ok(_) => May::Write,
        Err(_) => May::Read,
    };
    let durability = durability(target.query(), data.durability)?;
    let time = room.statement_time(asks.timeout_ms)?;
    let parameters = Parameters::read(asks.params)?;
    let permit = room.statement_permit(time).await?;
    // Few run at a time: what their text takes is bounded by that. Those that wait are counted.
    drop(counted);
    let open = data.database(name).await?;
    let (writer, reader) = pipe(Instant::now() + time);
    let work = move || {
        let options = TransactionOptions { durability, ..open.db.transaction_options() };
        let script = Script { text: asks.sql, parameters, may, options, time };
        let watch = writer.watch();
        let mut results = Results::new(format, writer);
        let done = script.run(&open.sql, watch, &mut results);
        // Before the response is complete: its reader finds the database in nobody's use, and a place.
        drop((open, permit));
        results.finish(done);
    };
    tokio::task::spawn_blocking(work);
    begin(reader, format).await
}

/// Waits for the first piece; a failure before it is a problem.
async fn begin(mut reader: Reader, format: Format) -> Answer {
    let first = reader.next().await.transpose()?.unwrap_or_default();
    let kind = match format {
        Format::Ndjson => NDJSON,
        Format::Json => "application/json",
        Format::Csv => "text/csv; charset=utf-8",
    };
    if reader.is_over() {
        return Ok(whole(kind, first));
    }
    Ok(streamed(kind, axum::body::Body::new(reader.with_first(first))))
}

fn format_of(query: Option<&str>) -> Answer<Format> {
    match raw_parameter(query, "format") {
        None | Some("ndjson") => Ok(Format::Ndjson),
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some(_) => Err(Problem::bad_request("`format` must be ndjson, json or csv")),
    }
}
