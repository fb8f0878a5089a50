//! What an operator does to a database: checkpoint, compact, check, sync, backup.

use super::{Shared, database, done, json, place, split, streamed};
use crate::app::App;
use crate::handoff::hand_off;
use crate::open::Open;
use crate::problem::{Answer, Problem};
use crate::receive::RequestBody;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use pando::{BackupOptions, Database};
use serde_json::{Value, json as object};
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Problems of a check that are listed; the count is of all.
const LISTED: usize = 100;
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
        "log_file_bytes_before": compacted.log_file_bytes_before,
        "log_file_bytes": compacted.log_file_bytes,
    });
    Ok(json(StatusCode::OK, &report))
}

/// POST. What is wrong with the database is an answer, not a failure of the request.
pub async fn check(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let found = run(app, request, |db| Ok(db.check_all(|_| {})?)).await?;
    let report = &found.report;
    let problems: Vec<Value> =
        found.wrong.iter().take(LISTED).map(|wrong| wrong.to_string().into()).collect();
    let answer = object!({
        "sound": found.count == 0,
        "problem_count": found.count,
        "problems": problems,
        "tables": report.tables,
        "records_in_pages": report.records,
        "leaf_pages": report.leaves,
        "inner_pages": report.inner_pages,
        "large_values": report.large_values,
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
    let _permit = app.stream_permit()?;
    hand_off(move || work(&open.db)).await
}

/// GET: a hot backup, as `pando backup` writes it to a stream and `pando restore` reads it.
pub async fn backup(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), _) = split(request);
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let name = place::database(uri.path()).unwrap_or_default();
    let open = database(&app, name).await?;
    let permit = app.stream_permit()?;
    let (pieces, coming) = mpsc::channel(PIECES_WAITING);
    tokio::task::spawn_blocking(move || take(&open, Sink { pieces, piece: Vec::new() }));
    let body = axum::body::Body::new(BackupBody { coming, _permit: permit });
    let mut response: Response<_> = streamed("application/octet-stream", body);
    let file = format!("attachment; filename=\"{name}.pando-backup\"");
    let file = HeaderValue::from_str(&file).map_err(|_| Problem::bad_request("no such database"))?;
    response.headers_mut().insert("content-disposition", file);
    Ok(response)
}

type Piece = io::Result<Bytes>;

fn take(open: &Open, mut sink: Sink) {
    let taken = open.db.backup(BackupOptions::default(), &mut sink);
    let ended = match taken {
        Ok(_) => sink.flush(),
        Err(error) => Err(io::Error::other(error)),
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "a backup was broken off");
        let _ = sink.pieces.blocking_send(Err(error));
    }
}

/// Where the backup is written to. A client that is gone is a closed pipe.
struct Sink {
    pieces: mpsc::Sender<Piece>,
    piece: Vec<u8>,
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
        self.pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

struct BackupBody {
    coming: mpsc::Receiver<Piece>,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for BackupBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.coming.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
