//! `/v1/databases/{database}/changes`: a stream of every commit, for clients that follow the database.
//!
//! 1. A thread reads the changes and writes pieces into a pipe, which holds only a few. A slow client makes the thread
//!    wait, and the database keeps what is not read yet, up to its limit. Beyond that the stream ends with `too-old`.
//! 2. A stream ends when its client disconnects, when the database closes, or when no change came for the time in
//!    `wait`. It also ends when its token is not valid any more, and when the server ends: it would never end by
//!    itself.
//! 3. An error before the stream begins is a problem, as for any request. A later error is the last line or event, or
//!    the bytes break off.

use crate::access::pass::Pass;
use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation};
use crate::calls::query::flag;
use crate::data::held::Data;
use crate::data::open::Open;
use crate::limits::connections::Connections;
use crate::limits::handoff::hand_off;
use crate::limits::room::Room;
use crate::limits::streams::StreamPermit;
use crate::operations::consumers::find;
use crate::operations::ranges::value_bytes;
use crate::send::changed_rows::RowLines;
use crate::send::changes::{Ended, cut_change_lines};
use crate::watch::observe::Kind;
use crate::wire::pipe::{Stopped, Writer, pipe};
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{NDJSON, streamed};
use crate::wire::target::{parameter, raw_parameter, raw_parameters};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use pando::remote::Capability;
use pando::{Change, Changes, ChangesOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "GET",
    "/v1/databases/{database}/changes",
    Access::Database(Scope::Read),
    Kind::Other,
    "Follow the commits of a database: NDJSON, server-sent events, or bytes for a copy",
    |parts, call, _| {
        let pass = Pass::new(parts.keeper(), &call.headers);
        Box::pin(changes(parts.data(), parts.room(), (pass, parts.connections()), call))
    },
)
.needs(Capability::Changes)
.takes(&["after", "consumer", "last-event-id", "changed", "prefix", "value_bytes", "wait", "feed", "rows"])
.responses(&[(200, "The changes"), MISSING, (410, "The changes after `after` are no longer kept")])
.sends(&["application/x-ndjson", "text/event-stream", "application/octet-stream"])
.ending_with_client()
.timed()];

/// The header that names the database and its fork, so that a replica notices at once that it follows another one.
pub const IDENTITY: HeaderName = HeaderName::from_static("pando-identity");

/// Changes in the form that `Database::apply_changes` reads.
const BYTES: &str = "application/octet-stream";
const EVENTS: &str = "text/event-stream";
/// How often the thread checks that its client is connected.
const LOOK: Duration = Duration::from_millis(250);
/// The interval of empty events, which keep proxies from closing an idle connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The size of a piece of the body, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// The longest duration of a stream.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// The form in which changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Ndjson,
    Events,
    Bytes,
}

impl Format {
    fn choose(query: Option<&str>, headers: &HeaderMap) -> Answer<Format> {
        let accepts = |kind: &str| {
            let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            accepted.flat_map(|value| value.split(',')).any(|asked| asked.trim().starts_with(kind))
        };
        match raw_parameter(query, "format") {
            Some("ndjson") => Ok(Format::Ndjson),
            Some("sse") => Ok(Format::Events),
            Some("binary") => Ok(Format::Bytes),
            Some(_) => Err(Problem::bad_request("`format` must be ndjson, sse or binary")),
            None if accepts(EVENTS) => Ok(Format::Events),
            None if accepts(BYTES) => Ok(Format::Bytes),
            None => Ok(Format::Ndjson),
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Ndjson => NDJSON,
            Format::Events => EVENTS,
            Format::Bytes => BYTES,
        }
    }
}

/// Handles GET.
async fn changes(
    data: Arc<Data>,
    room: Arc<Room>,
    (pass, connections): (Pass, Arc<Connections>),
    call: Call,
) -> Answer {
    let target = call.target();
    let query = target.query();
    let format = Format::choose(query, &call.headers)?;
    let wait = wait(query)?;
    let value_bytes = value_bytes(query)?;
    let tables = tables(query)?;
    let as_rows = as_rows(query, format)?;
    let mut options = options(query, &call.headers)?;
    if !as_rows {
        options = tables.iter().fold(options, |options, name| options.table(name));
    }
    let consumer = consumer(query)?;
    let open = data.database(target.database()).await?;
    if open.is_leaving() {
        return Err(dropped());
    }
    let permit = room.stream_permit().await?;
    let begin = {
        let open = Arc::clone(&open);
        // A client that connects again has its position itself.
        let begins = !call.headers.contains_key("last-event-id");
        move || {
            let options = match consumer {
                Some(name) if begins => options.after(find(&open, &name)?.position),
                _ => options,
            };
            let changes = open.db.changes_with(options)?;
            let rows = as_rows.then(|| RowLines::begin(&open.db, changes.position(), tables)).transpose()?;
            Ok((changes, rows.map(|rows| rows.cut(value_bytes))))
        }
    };
    let (changes, rows) = hand_off(begin).await?;
    let (writer, reader) = pipe(Instant::now() + LONGEST);
    let identity = open.db.identity().to_string();
    let (piece, held) = (Vec::new(), (open, permit));
    let following =
        Following { changes, format, rows, value_bytes, wait, pass, connections, writer, piece, held };
    tokio::task::spawn_blocking(move || following.run());
    let mut response = streamed(format.content_type(), axum::body::Body::new(reader));
    // No proxy may buffer the stream.
    response.headers_mut().insert("cache-control", HeaderValue::from_static("no-store"));
    response.headers_mut().insert(IDENTITY, HeaderValue::try_from(identity).expect("it is ASCII"));
    Ok(response)
}

/// Returns how long the stream continues without a change; `None`: without a limit.
fn wait(query: Option<&str>) -> Answer<Option<Duration>> {
    let wrong = || Problem::bad_request("`wait` must be a number of seconds");
    let seconds = raw_parameter(query, "wait").map(|digits| digits.parse::<u32>().map_err(|_| wrong()));
    Ok(seconds.transpose()?.map(|seconds| Duration::from_secs(seconds.into())))
}

/// Returns the name of the consumer after whose position the stream begins.
fn consumer(query: Option<&str>) -> Answer<Option<String>> {
    let Some(segment) = raw_parameter(query, "consumer") else { return Ok(None) };
    if raw_parameter(query, "after").is_some() {
        return Err(Problem::bad_request("`consumer` and `after` exclude each other"));
    }
    Ok(Some(crate::calls::target::table_name(segment)?.into_owned()))
}

fn options(query: Option<&str>, headers: &HeaderMap) -> Answer<ChangesOptions> {
    let wrong = |name: &str| Problem::bad_request(format!("`{name}` must be the number of a commit"));
    let number = |name: &str, digits: &str| digits.parse::<u64>().map_err(|_| wrong(name));
    // A client that connects again sends its last position in this header, because its address is still that of the
    // first request.
    let last = headers.get("last-event-id").map(|value| {
        let digits = value.to_str().map_err(|_| wrong("last-event-id"))?;
        number("last-event-id", digits)
    });
    let after = match (last.transpose()?, raw_parameter(query, "after")) {
        (Some(last), _) => last,
        (None, Some(digits)) => number("after", digits)?,
        (None, None) => 0,
    };
    let options = ChangesOptions::default().after(after);
    let escaped = |_| Problem::bad_request("`prefix` has a wrong percent escape");
    Ok(match parameter(query, "prefix").map_err(escaped)? {
        Some(prefix) => options.prefix(prefix),
        None => options,
    })
}

/// Returns the names of the tables that are shown; none: all.
fn tables(query: Option<&str>) -> Answer<Vec<String>> {
    let names = raw_parameters(query, "table");
    names.map(|name| Ok(crate::calls::target::table_name(name)?.into_owned())).collect()
}

/// Returns whether rows are shown in place of what the engine stores for them.
fn as_rows(query: Option<&str>, format: Format) -> Answer<bool> {
    let as_rows = flag(query, "rows")?;
    if as_rows && format == Format::Bytes {
        return Err(Problem::bad_request(
            "`rows` is not possible in the format binary, which a copy applies",
        ));
    }
    if as_rows && raw_parameter(query, "prefix").is_some() {
        return Err(Problem::bad_request("`rows` and `prefix` exclude each other: rows have no such keys"));
    }
    Ok(as_rows)
}

/// Returns the problem of a stream of a database that is dropped.
fn dropped() -> Problem {
    Problem::not_found("the database is dropped")
}

/// A stream in progress.
struct Following {
    changes: Changes,
    format: Format,
    /// What shows rows, if that is asked for.
    rows: Option<RowLines>,
    /// How many bytes of each value are sent, if not all.
    value_bytes: Option<u64>,
    wait: Option<Duration>,
    pass: Pass,
    connections: Arc<Connections>,
    writer: Writer,
    piece: Vec<u8>,
    /// A handle that keeps the database open, and the place of the stream.
    held: (Arc<Open>, StreamPermit),
}

impl Following {
    fn run(mut self) {
        match self.follow() {
            Ok(Some(problem)) => self.fail(problem),
            Ok(None) => {
                if self.format == Format::Ndjson {
                    // With a filter, the position can be after the last commit that was shown.
                    let _ = writeln!(self.piece, "{{\"position\":{}}}", self.changes.position());
                }
                self.writer.finish(Bytes::from(self.piece));
            }
            Err(Ended::Unwritten(Stopped)) => {}
            Err(Ended::Unread(error)) => self.fail(error.into()),
        }
    }

    /// Writes changes until the client disconnects, no change comes in time, or the stream has to end. Returns the
    /// problem because of which it has to, if there is one.
    fn follow(&mut self) -> Result<Option<Problem>, Ended<Stopped>> {
        let watch = self.writer.watch();
        let (mut came, mut sent) = (Instant::now(), Instant::now());
        loop {
            if watch.is_over() {
                return Err(Ended::Unwritten(Stopped));
            }
            if !self.pass.is_valid() {
                return Ok(Some(Pass::ended()));
            }
            if self.connections.is_closing() {
                return Ok(None);
            }
            if self.held.0.is_leaving() {
                return Ok(Some(dropped()));
            }
            let left = self.wait.map_or(LOOK, |wait| wait.saturating_sub(came.elapsed()).min(LOOK));
            let (piece, writer) = (&mut self.piece, &self.writer);
            let came_one = self.changes.wait(left)?;
            let is_at_end = came_one.is_none();
            let form = Form { format: self.format, rows: self.rows.as_mut(), value_bytes: self.value_bytes };
            let has_lines = match came_one {
                Some(change) => form.write(change, &mut Pieces { piece, writer })?,
                None => false,
            };
            if has_lines {
                came = Instant::now();
                // If more changes are ready, they are sent together with these.
                if self.changes.is_ready(Waker::noop()) {
                    continue;
                }
            } else if self.wait.is_some_and(|wait| came.elapsed() >= wait)
                && (is_at_end || !self.changes.is_ready(Waker::noop()))
            {
                return Ok(None);
            }
            if self.format == Format::Events && self.piece.is_empty() && sent.elapsed() >= HEARTBEAT {
                self.piece.extend_from_slice(b":\n\n");
            }
            if !self.piece.is_empty() {
                Pieces { piece: &mut self.piece, writer: &self.writer }
                    .hand_on()
                    .map_err(Ended::Unwritten)?;
                sent = Instant::now();
            }
        }
    }

    /// Writes the error that ends the stream, if its form can express one.
    fn fail(mut self, problem: Problem) {
        match self.format {
            Format::Ndjson => {
                let _ = writeln!(self.piece, "{{\"error\":{}}}", problem.to_json());
                self.writer.finish(Bytes::from(self.piece));
            }
            Format::Events => {
                let _ = write!(self.piece, "event: error\ndata: {}\n\n", problem.to_json());
                self.writer.finish(Bytes::from(self.piece));
            }
            Format::Bytes => self.writer.fail(problem),
        }
    }
}

/// How a change is written.
struct Form<'f> {
    format: Format,
    rows: Option<&'f mut RowLines>,
    value_bytes: Option<u64>,
}

impl Form<'_> {
    /// Writes a change. Returns whether it has lines.
    fn write(self, mut change: Change<'_>, out: &mut Pieces<'_>) -> Result<bool, Ended<Stopped>> {
        let number = change.commit_number();
        match self.format {
            Format::Ndjson => self.write_lines(&change, |line, _| {
                out.piece.extend_from_slice(line);
                out.piece.push(b'\n');
                out.hand_on_full()
            }),
            Format::Events => self.write_lines(&change, |line, is_last| {
                out.piece.extend_from_slice(b"data: ");
                out.piece.extend_from_slice(line);
                // Only the last event of a commit has a number, so that a client that connects again continues after
                // whole commits.
                if is_last {
                    let _ = write!(out.piece, "\nid: {number}");
                }
                out.piece.extend_from_slice(b"\n\n");
                out.hand_on_full()
            }),
            Format::Bytes => match change.write_to(out) {
                Ok(_) => Ok(true),
                Err(_) if out.writer.watch().is_over() => Err(Ended::Unwritten(Stopped)),
                Err(error) => Err(Ended::Unread(error)),
            },
        }
    }

    fn write_lines(
        self,
        change: &Change<'_>,
        write: impl FnMut(&[u8], bool) -> Result<(), Stopped>,
    ) -> Result<bool, Ended<Stopped>> {
        match self.rows {
            Some(rows) => rows.write(change, write),
            None => cut_change_lines(change, self.value_bytes, write).map(|()| true),
        }
    }
}

/// Gathers the body into pieces.
struct Pieces<'f> {
    piece: &'f mut Vec<u8>,
    writer: &'f Writer,
}

impl Pieces<'_> {
    fn hand_on(&mut self) -> Result<(), Stopped> {
        self.writer.write(Bytes::from(std::mem::take(self.piece)))
    }

    fn hand_on_full(&mut self) -> Result<(), Stopped> {
        if self.piece.len() >= PIECE_BYTES { self.hand_on() } else { Ok(()) }
    }
}

impl std::io::Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        let stopped = |Stopped| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        self.hand_on_full().map_err(stopped)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
