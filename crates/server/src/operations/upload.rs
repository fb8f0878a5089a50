//! Imports: a thread that may wait reads a body of any length in pieces and stores it in one transaction.
//!
//! 1. The body passes through a channel of a few pieces, so memory does not depend on its length. The transaction has a
//!    memory limit of its own, beyond which it uses the disk.
//! 2. Only a complete body is committed: its last piece is an empty one, and without it reading fails.
//! 3. If storing fails, the rest of the body is received and discarded before the response is sent, because many
//!    clients read no response before they have sent everything. The client then learns which line was wrong.

use crate::data::engine::Engine;
use crate::data::open::Open;
use crate::limits::handoff::hand_off;
use crate::limits::receive::{Incoming, Received, RequestBody};
use crate::limits::room::Room;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::json;
use axum::http::StatusCode;
use bytes::{Buf, Bytes};
use pando::{Durability, TransactionOptions};
use serde_json::json as object;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The number of pieces that wait to be stored.
const PIECES_WAITING: usize = 8;
/// The longest line or record of an import.
pub(super) const RECORD_BYTES: usize = 4 << 20;

/// The result of an import.
pub(super) struct Stored {
    pub records: u64,
    /// The number of the commit, if the engine has an order of commits.
    pub commit: Option<u64>,
}

/// A body that a thread reads which may wait.
pub(super) struct Upload {
    coming: mpsc::Receiver<Bytes>,
    piece: Bytes,
    is_over: bool,
}

impl BufRead for Upload {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() && !self.is_over {
            let broken_off = || io::Error::other("the body ended before it was complete");
            self.piece = self.coming.blocking_recv().ok_or_else(broken_off)?;
            self.is_over = self.piece.is_empty();
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.piece.advance(bytes);
    }
}

impl Read for Upload {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(out)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

/// Passes the body to `store`, which reads it, and returns what it stored.
pub(super) async fn import(
    room: &Room,
    body: RequestBody,
    store: impl FnOnce(Upload) -> Answer<Stored> + Send + 'static,
) -> Answer {
    let permit = room.stream_permit().await?;
    let (begin, rest, _counted) = match room.reception.receive_import(body).await? {
        Received::Whole(bytes, counted) => (bytes, None, counted),
        Received::Long(begin, rest) => (begin, Some(rest), None),
    };
    let (pieces, coming) = mpsc::channel(PIECES_WAITING);
    let storing = tokio::spawn(hand_off(move || {
        // The permit is kept until the work ends, even if the client disconnects.
        let _permit = permit;
        store(Upload { coming, piece: Bytes::new(), is_over: false })
    }));
    let sent = send(pieces, begin, rest).await;
    let stored = storing
        .await
        .unwrap_or_else(|_| Err(Problem::internal("the import failed unexpectedly; see the server's log")));
    sent?;
    let Stored { records, commit } = stored?;
    Ok(json(StatusCode::OK, &object!({ "records": records, "commit": commit })))
}

/// Passes the body on. An empty piece marks its complete end.
async fn send(pieces: mpsc::Sender<Bytes>, begin: Bytes, mut rest: Option<Incoming>) -> Answer<()> {
    let mut next = Some(begin);
    while let Some(bytes) = next {
        // If the receiver is dropped, storing has failed. Its error is returned after the whole body was received.
        if !bytes.is_empty() {
            let _ = pieces.send(bytes).await;
        }
        next = match &mut rest {
            Some(rest) => rest.next().await?,
            None => None,
        };
    }
    let _ = pieces.send(Bytes::new()).await;
    Ok(())
}

/// Runs `store` on every nonempty line of a body, in one transaction.
pub(super) async fn import_lines<E: Engine>(
    room: &Room,
    open: Arc<Open<E>>,
    durability: Durability,
    body: RequestBody,
    store: impl FnMut(&mut E::Transaction, &[u8]) -> Answer<()> + Send + 'static,
) -> Answer {
    let work = move |mut upload: Upload| {
        let options = TransactionOptions { durability, ..E::transaction_options(&open.db) };
        let mut tx = E::begin(&open.db, &options)?;
        let records = store_lines::<E>(&mut tx, &mut upload, store)?;
        Ok(Stored { records, commit: E::commit(tx)? })
    };
    import(room, body, work).await
}

/// Stores each line. Returns how many lines there were.
fn store_lines<E: Engine>(
    tx: &mut E::Transaction,
    upload: &mut Upload,
    mut store: impl FnMut(&mut E::Transaction, &[u8]) -> Answer<()>,
) -> Answer<u64> {
    let (mut line, mut records) = (Vec::new(), 0);
    for number in 1u64.. {
        line.clear();
        let broken_off = |error: io::Error| Problem::bad_request(error.to_string());
        upload.by_ref().take(RECORD_BYTES as u64 + 1).read_until(b'\n', &mut line).map_err(broken_off)?;
        if line.is_empty() {
            break;
        }
        if number == 1 {
            rows::check_beginning(&mut line).map_err(Problem::bad_request)?;
        }
        if line.len() > RECORD_BYTES {
            let detail = format!(
                "line {number} is longer than {RECORD_BYTES} bytes; put this record with a request of its own"
            );
            return Err(Problem::bad_request(detail));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        store(tx, &line).map_err(|mut problem| {
            problem.detail = format!("line {number}: {}; nothing was stored", problem.detail);
            problem
        })?;
        records += 1;
    }
    Ok(records)
}
