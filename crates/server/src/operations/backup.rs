//! `/v1/databases/{database}/backup`: a hot backup, which one thread writes to a channel and from which the response is
//! sent.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{CONFLICT, MISSING};
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::data::open::Open;
use crate::limits::room::Room;
use crate::limits::streams::StreamPermit;
use crate::watch::jobs::{Jobs, Running};
use crate::watch::observe::Kind;
use crate::wire::digits::from_hex;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::streamed;
use crate::wire::target::raw_parameter;
use axum::http::HeaderValue;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use pando::remote::Capability;
use pando::{BackupInfo, BackupOptions, BackupProgress};
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The lowest rate of a backup in bytes a second. A backup keeps what it has not copied yet from being freed, and
/// occupies a thread.
pub const LEAST_RATE_BYTES: u64 = BackupOptions::LEAST_RATE_BYTES;
/// The number of pieces of a backup that wait to be sent.
const PIECES_WAITING: usize = 4;
const PIECE_BYTES: usize = 256 << 10;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "GET",
    "/v1/databases/{database}/backup",
    Access::Database(Scope::Admin),
    Kind::Other,
    "Take a hot backup for `pando restore`, in full or since another backup",
    |parts, call, _| Box::pin(backup(parts.data(), parts.room(), Arc::clone(&parts.watch.jobs), call)),
)
.needs(Capability::Backups)
.takes(&["since", "rate"])
.responses(&[(200, "The backup"), MISSING, CONFLICT])
.sends(&["application/octet-stream"])];

/// Handles GET: a hot backup, as `pando backup` writes it to a stream and `pando restore` reads it. `?since=...` asks
/// for the difference to another backup, and `?rate=N` limits its speed.
async fn backup(data: Arc<Data>, room: Arc<Room>, jobs: Arc<Jobs>, call: Call) -> Answer {
    let target = call.target();
    let name = target.database();
    let (since, rate_bytes) = (since(target.query())?, rate_bytes(target.query())?);
    let open = data.database(name).await?;
    let permit = room.stream_permit().await?;
    let (pieces, mut coming) = mpsc::channel(PIECES_WAITING);
    let job = jobs.begin(name, "backup", "bytes");
    tokio::task::spawn_blocking(move || {
        take(&open, since.as_ref(), rate_bytes, Sink { pieces, piece: Vec::new() }, job);
    });
    // An error at the start, a base of another database for example, gets a response of its own.
    let first = match coming.recv().await {
        Some(Err(error)) => return Err(problem(error)),
        first => first,
    };
    let body = axum::body::Body::new(BackupBody { first, coming, _permit: permit });
    let mut response = streamed("application/octet-stream", body);
    let file = format!("attachment; filename=\"{name}.pando-backup\"");
    let file = HeaderValue::from_str(&file)
        .map_err(|_| Problem::bad_request("there is no database with this name"))?;
    response.headers_mut().insert("content-disposition", file);
    Ok(response)
}

/// A piece of a backup; `None`: it is complete. A channel that is closed without `None` is an incomplete backup.
type Piece = io::Result<Option<Bytes>>;

/// Returns the backup that `since` names as the base.
fn since(query: Option<&str>) -> Answer<Option<BackupInfo>> {
    let Some(digits) = raw_parameter(query, "since") else { return Ok(None) };
    let no_digits =
        || Problem::bad_request("`since` must be the bytes of `BackupInfo::to_bytes` in hexadecimal digits");
    Ok(Some(BackupInfo::from_bytes(&from_hex(digits).ok_or_else(no_digits)?)?))
}

fn rate_bytes(query: Option<&str>) -> Answer<Option<u64>> {
    let wrong = || {
        Problem::bad_request(format!("`rate` must be a number of bytes a second, {LEAST_RATE_BYTES} or more"))
    };
    let rate = raw_parameter(query, "rate").map(|digits| digits.parse().map_err(|_| wrong()));
    match rate.transpose()? {
        Some(bytes) if bytes < LEAST_RATE_BYTES => Err(wrong()),
        rate => Ok(rate),
    }
}

/// Returns the problem of a backup that failed, with the library's message.
fn problem(error: io::Error) -> Problem {
    match error.downcast::<pando::Error>() {
        Ok(error) => error.into(),
        Err(error) => Problem::internal(error.to_string()),
    }
}

fn take(open: &Open, since: Option<&BackupInfo>, rate_bytes: Option<u64>, mut sink: Sink, job: Running) {
    // The estimate has the pages. The log after them is copied as well. The length of a difference is not known.
    let log_bytes = open.db.stats().map_or(0, |stats| stats.pacing.unabsorbed_log_bytes);
    let expected = |pages: u64| if since.is_some() { 0 } else { pages + log_bytes };
    let mut note = |progress: BackupProgress| job.set(progress.bytes, expected(progress.expected_bytes));
    let mut options = BackupOptions::default().progress(&mut note);
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
    job.end(ended.as_ref().map(|_| ()));
    if let Err(error) = ended {
        tracing::warn!(%error, "a backup was aborted");
        let _ = sink.pieces.blocking_send(Err(error));
    }
}

/// The destination of the backup. If the client has disconnected, it is a closed pipe.
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
    /// The first piece, which was already received.
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
            let permit = StreamPermit::take(&Streams::new(1, Arc::new(Semaphore::new(1))));
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
