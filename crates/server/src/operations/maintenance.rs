//! What an operator does to a database: checkpoint, compact, check, sync, backup.

use super::{Shared, database, done, json, place, split, streamed};
use crate::data::open::Open;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::streams::StreamPermit;
use crate::serving::service::App;
use crate::wire::form::from_hex;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::raw_parameter;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use pando::{BackupInfo, BackupOptions, Database};
use serde_json::{Value, json as object};
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Problems of a check that are listed; the count is of all.
const LISTED: usize = 100;
/// The slowest backup, in bytes a second: it keeps what it has not copied yet, and a thread.
pub const LEAST_RATE_BYTES: u64 = 64 << 10;
/// What of a backup waits to be sent.
const PIECES_WAITING: usize = 4;
const PIECE_BYTES: usize = 256 << 10;

/// POST.
pub async fn checkpoint(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    run(app, request, |db| Ok(db.checkpoint()?)).await?;
    Ok(done(None))
}

/// POST.
pub async fn sync(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    run(app, request, |db| Ok(db.sync()?)).await?;
    Ok(done(None))
}

/// POST.
pub async fn compact(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let compacted = run(app, request, |db| Ok(db.compact(|_| {})?)).await?;
    let report = object!({
        "data_file_bytes_before": compacted.data_file_bytes_before,
        "data_file_bytes": compacted.data_file_bytes,
        "data_used_bytes": compacted.data_used_bytes,
        "log_file_bytes_before": compacted.log_file_bytes_before,
        "log_file_bytes": compacted.log_file_bytes,
        "checkpoints": compacted.checkpoints,
    });
    Ok(json(StatusCode::OK, &report))
}

/// POST. What is wrong with the database is an answer, not a failure of the request.
pub async fn check(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (found, typed) = run(app, request, |db| {
        let found = db.check_all(|_| {})?;
        Ok((found, rows::check(&db.snapshot()?, |_| {})?))
    })
    .await?;
    let report = &found.report;
    let count = found.count + typed.problem_count();
    let problems = found.wrong.iter().map(ToString::to_string);
    let problems = problems.chain(typed.problems.iter().map(ToString::to_string));
    let problems: Vec<Value> = problems.take(LISTED).map(Value::from).collect();
    let answer = object!({
        "sound": count == 0,
        "problem_count": count,
        "problems": problems,
        "typed_tables": typed.tables,
        "typed_rows": typed.rows,
        "index_entries": typed.entries,
        "tables": report.tables,
        "lsm_tables": report.lsm_tables,
        "runs": report.runs,
        "records_in_pages": report.records,
        "record_bytes": report.record_bytes,
        "saved_bytes": report.saved_bytes,
        "leaf_pages": report.leaves,
        "inner_pages": report.inner_pages,
        "large_values": report.large_values,
        "free_in_pages_bytes": report.free_in_pages_bytes,
        "orphan_units": report.orphan_units,
    });
    Ok(json(StatusCode::OK, &answer))
}

async fn run<T: Send + 'static>(
    app: Arc<App>,
    request: Request<RequestBody>,
    work: impl FnOnce(&Database) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let (method, (uri, _), _) = split(request);
    if method != Method::POST {
        return Err(Problem::method_not_allowed());
    }
    let open = database(&app, place::database(uri.path()).unwrap_or_default()).await?;
    let permit = app.stream_permit().await?;
    hand_off(move || {
        // Kept to the end of the work, which does not end with the client.
        let _permit = permit;
        work(&open.db)
    })
    .await
}

/// GET: a hot backup, as `pando backup` writes it to a stream and `pando restore` reads it. `?since=...` is the
/// difference to another, `?rate=N` how fast it may be taken.
pub async fn backup(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), _) = split(request);
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let name = place::database(uri.path()).unwrap_or_default();
    let (since, rate_bytes) = (since(&uri)?, rate_bytes(&uri)?);
    let open = database(&app, name).await?;
    let permit = app.stream_permit().await?;
    let (pieces, mut coming) = mpsc::channel(PIECES_WAITING);
    tokio::task::spawn_blocking(move || {
        take(&open, since.as_ref(), rate_bytes, Sink { pieces, piece: Vec::new() });
    });
    // What is wrong from the start is an answer of its own: a base of another database, say.
    let first = match coming.recv().await {
        Some(Err(error)) => return Err(problem(error)),
        first => first,
    };
    let body = axum::body::Body::new(BackupBody { first, coming, _permit: permit });
    let mut response: Response<_> = streamed("application/octet-stream", body);
    let file = format!("attachment; filename=\"{name}.pando-backup\"");
    let file = HeaderValue::from_str(&file)
        .map_err(|_| Problem::bad_request("there is no database with this name"))?;
    response.headers_mut().insert("content-disposition", file);
    Ok(response)
}

/// `None`: all of it was sent. A channel that ends without that was left in the middle.
type Piece = io::Result<Option<Bytes>>;

/// The backup to which the difference is asked for.
fn since(uri: &Uri) -> Answer<Option<BackupInfo>> {
    let Some(digits) = raw_parameter(uri.query(), "since") else { return Ok(None) };
    let no_digits =
        || Problem::bad_request("`since` must be the bytes of `BackupInfo::to_bytes` in hexadecimal digits");
    Ok(Some(BackupInfo::from_bytes(&from_hex(digits).ok_or_else(no_digits)?)?))
}

fn rate_bytes(uri: &Uri) -> Answer<Option<u64>> {
    let wrong = || {
        Problem::bad_request(format!("`rate` must be a number of bytes a second, {LEAST_RATE_BYTES} or more"))
    };
    let rate = raw_parameter(uri.query(), "rate").map(|digits| digits.parse().map_err(|_| wrong()));
    match rate.transpose()? {
        Some(bytes) if bytes < LEAST_RATE_BYTES => Err(wrong()),
        rate => Ok(rate),
    }
}

/// Why taking it failed, as the library said it.
fn problem(error: io::Error) -> Problem {
    match error.downcast::<pando::Error>() {
        Ok(error) => error.into(),
        Err(error) => Problem::internal(error.to_string()),
    }
}

fn take(open: &Open, since: Option<&BackupInfo>, rate_bytes: Option<u64>, mut sink: Sink) {
    let mut options = BackupOptions::default();
    if let Some(since) = since {
        options = options.since(since);
    }
    if let Some(bytes) = rate_bytes {
        options = options.rate_bytes(bytes);
    }
    let taken = open.db.backup(options, &mut sink);
    let ended = match taken {
        Ok(_) => sink.flush().and_then(|()| sink.send(None)),
        Err(error) => Err(io::Error::other(error)),
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "a backup was aborted");
        let _ = sink.pieces.blocking_send(Err(error));
    }
}

/// Where the backup is written to. A client that is gone is a closed pipe.
struct Sink {
    pieces: mpsc::Sender<Piece>,
    piece: Vec<u8>,
}

impl Sink {
    fn send(&self, piece: Option<Bytes>) -> io::Result<()> {
        self.pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.send(Some(piece))
    }
}

struct BackupBody {
    /// What came already.
    first: Option<Piece>,
    coming: mpsc::Receiver<Piece>,
    _permit: StreamPermit,
}

impl HttpBody for BackupBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let broken_off = || Err(io::Error::other("the backup failed unexpectedly"));
        let next = match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.coming.poll_recv(context),
        };
        next.map(|piece| match piece.unwrap_or_else(broken_off) {
            Ok(Some(piece)) => Some(Ok(Frame::data(piece))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::streams::Streams;
    use http_body_util::BodyExt;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    #[test]
    fn a_backup_that_is_left_in_the_middle_is_broken_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let received = |pieces: Vec<Option<&'static [u8; 1]>>| {
            let (sender, coming) = mpsc::channel(PIECES_WAITING);
            let permit = StreamPermit::of(&Streams::new(1, Arc::new(Semaphore::new(1))));
            pieces
                .into_iter()
                .for_each(|piece| sender.try_send(Ok(piece.map(|piece| Bytes::from_static(piece)))).unwrap());
            drop(sender);
            runtime
                .block_on(BackupBody { first: None, coming, _permit: permit }.collect())
                .map(|all| all.to_bytes().to_vec())
        };
        assert_eq!(received(vec![Some(b"a"), Some(b"b"), None]).unwrap(), b"ab");
        assert!(received(vec![Some(b"a")]).is_err(), "the writer is gone");
    }
}
