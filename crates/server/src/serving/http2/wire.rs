//! The socket of a connection of HTTP/2, which counts its bytes.

use crate::watch::watcher::Watch;
use crate::wire::stream::{Stream, hand_over};
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket that counts its bytes.
pub struct Wire {
    stream: Stream,
    /// What was read before it was known that this is HTTP/2.
    ahead: Bytes,
    watch: Arc<Watch>,
}

impl Wire {
    /// Wraps a socket of which `ahead` was read.
    pub fn new(stream: Stream, ahead: Bytes, watch: Arc<Watch>) -> Self {
        Wire { stream, ahead, watch }
    }

    fn counted(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        self.watch.traffic.sent(*written.as_ref().unwrap_or(&0));
        Poll::Ready(written)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match this.ahead.is_empty() {
            true => ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?,
            false => hand_over(&mut this.ahead, buffer),
        }
        this.watch.traffic.received(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.counted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        self.counted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
