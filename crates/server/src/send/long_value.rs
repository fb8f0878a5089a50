//! Values of more than 1 MiB, which are written while they are received and read while they are sent, in the memory of
//! a few pieces.

use crate::data::conditions::Conditions;
use crate::data::engine::{Engine, Native};
use crate::data::open::Open;
use crate::data::writer::Life;
use crate::limits::handoff::hand_off;
use crate::limits::receive::Incoming;
use crate::limits::room::Room;
use crate::limits::streams::StreamPermit;
use crate::wire::body::Body as ResponseBody;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::found;
use axum::http::Response;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pando::{Database, Durability, Table, TransactionOptions, ValueReader};
use std::any::Any;
use std::io::{Read, Seek as _, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The number of pieces between the socket and the data file.
const PIECES_WAITING: usize = 8;
/// The number of bytes that are read at once: the unit of checksums.
const PIECE_BYTES: usize = 256 << 10;

/// A piece between the socket and the data file.
enum Piece {
    Bytes(Bytes),
    /// The complete end of the body. Without it nothing is committed.
    End,
}

/// A put of a body.
pub struct Put {
    pub table: Table,
    pub key: Vec<u8>,
    /// How long the entry lives.
    pub life: Life,
    pub durability: Durability,
    pub conditions: Conditions,
}

/// An engine that takes long values.
pub trait LongValues: Engine {
    /// Returns the length of the longest value in bytes.
    fn longest_bytes(db: &Self::Database) -> u64;

    /// Sets a key to a body of more than 1 MiB. Returns the number of the commit, if the engine has an order of
    /// commits.
    fn put_long(
        room: &Room,
        open: Arc<Open<Self>>,
        put: Put,
        begin: Bytes,
        rest: Incoming,
    ) -> impl Future<Output = Answer<Option<u64>>> + Send;
}

impl LongValues for Native {
    fn longest_bytes(_: &Database) -> u64 {
        u64::MAX
    }

    async fn put_long(
        room: &Room,
        open: Arc<Open>,
        asked: Put,
        begin: Bytes,
        rest: Incoming,
    ) -> Answer<Option<u64>> {
        let _permit = room.stream_permit().await?;
        put(open, asked, begin, rest).await.map(Some)
    }
}

/// Sets a key to a body and returns the commit number. If the client disconnects before the end, or sends more than the
/// limit, nothing is stored.
async fn put(open: Arc<Open>, put: Put, begin: Bytes, mut rest: Incoming) -> Answer<u64> {
    let Put { table, key, life, durability, conditions } = put;
    let (pieces, mut coming) = mpsc::channel(PIECES_WAITING);
    let storing = hand_off(move || {
        let options = TransactionOptions { durability, ..open.db.transaction_options() };
        let mut tx = open.db.begin_with(&options)?;
        conditions.check_in(&tx, &table, &key)?;
        let mut writer = match life.ttl::<Native>(&tx, &table, &key)? {
            Some(ttl) => tx.value_writer_with_ttl(&table, &key, ttl)?,
            None => tx.value_writer(&table, &key)?,
        };
        loop {
            match coming.blocking_recv() {
                Some(Piece::Bytes(bytes)) => writer.append(&bytes)?,
                Some(Piece::End) => break,
                None => return Err(Problem::bad_request("the body ended before it was complete")),
            }
        }
        writer.finish()?;
        Ok(tx.commit()?)
    });
    let storing = tokio::spawn(storing);
    let receiving = async move {
        let mut next = Some(begin);
        // A closed channel means that storing has failed. Its error is returned below.
        while let Some(bytes) = next {
            if pieces.send(Piece::Bytes(bytes)).await.is_err() {
                rest.discard().await;
                return Ok(());
            }
            next = rest.next().await?;
        }
        let _ = pieces.send(Piece::End).await;
        Ok(())
    };
    let received: Answer<()> = receiving.await;
    let stored = storing.await.unwrap_or_else(|_| {
        Err(Problem::internal("storing the value failed unexpectedly; see the server's log"))
    });
    received?;
    stored
}

/// A value that is being sent to a client.
pub struct LongValue {
    state: State,
    left_bytes: u64,
    /// A handle that keeps the database from being closed or dropped while the value is read.
    open: Arc<dyn Any + Send + Sync>,
    permit: StreamPermit,
}

enum State {
    Ready(Box<ValueReader>),
    Reading(JoinHandle<(Box<ValueReader>, std::io::Result<Bytes>)>),
    Over,
}

impl LongValue {
    /// Returns a response with the bytes in `range` of the value of `reader`, in `open`.
    pub fn response<E: Engine>(
        mut reader: ValueReader,
        open: Arc<Open<E>>,
        permit: StreamPermit,
        range: Range<u64>,
    ) -> Response<ResponseBody> {
        reader.seek(SeekFrom::Start(range.start)).expect("a position in the value");
        let (left_bytes, place) = (range.end - range.start, permit.place());
        let value = LongValue { state: State::Ready(Box::new(reader)), left_bytes, open, permit };
        let mut response = found(axum::body::Body::new(value).into());
        response.extensions_mut().insert(place);
        response
    }
}

fn read_piece(
    mut reader: Box<ValueReader>,
    bytes: usize,
    _open: &(dyn Any + Send + Sync),
) -> (Box<ValueReader>, std::io::Result<Bytes>) {
    let mut piece = vec![0; bytes];
    let read = reader.read_exact(&mut piece).map(|()| Bytes::from(piece));
    (reader, read)
}

impl Body for LongValue {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let this = self.get_mut();
        this.permit.work();
        loop {
            match std::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Ready(_) if this.left_bytes == 0 => return Poll::Ready(None),
                State::Ready(reader) => {
                    let bytes = this.left_bytes.min(PIECE_BYTES as u64) as usize;
                    let open = Arc::clone(&this.open);
                    let read = move || read_piece(reader, bytes, &*open);
                    this.state = State::Reading(tokio::task::spawn_blocking(read));
                }
                State::Reading(mut task) => {
                    let Poll::Ready(done) = Pin::new(&mut task).poll(context) else {
                        this.state = State::Reading(task);
                        return Poll::Pending;
                    };
                    let (reader, piece) = done.map_err(std::io::Error::other)?;
                    let piece =
                        piece.inspect_err(|error| tracing::error!(%error, "a value could not be read"))?;
                    this.left_bytes -= piece.len() as u64;
                    this.state = State::Ready(reader);
                    this.permit.wait_for_client();
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}
