//! The socket of a connection: TCP, with or without TLS, or a unix socket.

use bytes::{Buf as _, Bytes};
use rustix::net::{RecvFlags, recv};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// The socket of a connection.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection that is not encrypted.
    Tcp(TcpStream),
    /// A connection from this machine.
    Unix(UnixStream),
    /// An encrypted TCP connection.
    #[cfg(feature = "tls")]
    Tls(Box<tls::Encrypted>),
}

/// A protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Moves bytes that were read before into the buffer of a reader.
pub fn hand_over(ahead: &mut Bytes, buffer: &mut ReadBuf<'_>) {
    let bytes = ahead.len().min(buffer.remaining());
    buffer.put_slice(&ahead[..bytes]);
    ahead.advance(bytes);
    if ahead.is_empty() {
        // Its memory is released.
        *ahead = Bytes::new();
    }
}

/// Calls a method of the socket.
macro_rules! socket {
    ($this:expr, $socket:ident => $call:expr) => {
        match $this.get_mut() {
            Stream::Tcp($socket) => $call,
            Stream::Unix($socket) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls($socket) => $call,
        }
    };
}

impl Stream {
    /// Sends small writes at once.
    pub fn set_nodelay(&self) {
        let _ = self.tcp().map(|socket| socket.set_nodelay(true));
    }

    /// Returns the TCP connection; `None` for a unix socket.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(socket) => Some(socket),
            Stream::Unix(_) => None,
            #[cfg(feature = "tls")]
            Stream::Tls(socket) => Some(socket.tcp()),
        }
    }

    /// Returns the protocol that the client chose in the handshake; `None`: the first bytes show it.
    pub fn chosen(&self) -> Option<Protocol> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => None,
            #[cfg(feature = "tls")]
            Stream::Tls(socket) => Some(socket.chosen()),
        }
    }

    /// Returns whether the client has stopped sending. While it has not, and has sent nothing either, the task is woken
    /// when that changes. Nothing of what the client has sent is lost.
    pub fn poll_has_ended(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        match self {
            Stream::Tcp(socket) => {
                let peeked = ready!(socket.poll_peek(context, &mut ReadBuf::new(&mut [0])));
                Poll::Ready(!peeked.is_ok_and(|bytes| bytes > 0))
            }
            Stream::Unix(socket) => loop {
                if ready!(socket.poll_read_ready(context)).is_err() {
                    return Poll::Ready(true);
                }
                let peek = || Ok(recv(&*socket, &mut [0; 1][..], RecvFlags::PEEK).map(|(_, bytes)| bytes)?);
                match socket.try_io(Interest::READABLE, peek) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    peeked => return Poll::Ready(peeked.map_or(true, |bytes| bytes == 0)),
                }
            },
            #[cfg(feature = "tls")]
            Stream::Tls(socket) => socket.poll_has_ended(context),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        socket!(self, socket => Pin::new(socket).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        socket!(self, socket => Pin::new(socket).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        socket!(self, socket => Pin::new(socket).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(socket) => socket.is_write_vectored(),
            Stream::Unix(socket) => socket.is_write_vectored(),
            #[cfg(feature = "tls")]
            Stream::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        socket!(self, socket => Pin::new(socket).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        socket!(self, socket => Pin::new(socket).poll_shutdown(context))
    }
}

#[cfg(feature = "tls")]
pub mod tls {
    //! An encrypted TCP connection. The end of what a client sends is part of what is encrypted, so it is found by
    //! reading; a byte that comes instead is kept for the next read.

    use super::*;
    use tokio_rustls::server::TlsStream;

    /// The protocols that clients can choose in the handshake, by their names there.
    pub const HTTP1: &[u8] = b"http/1.1";
    pub const HTTP2: &[u8] = b"h2";

    /// An encrypted TCP connection.
    #[derive(Debug)]
    pub struct Encrypted {
        stream: TlsStream<TcpStream>,
        /// A byte that was read before the connection asked for it.
        ahead: Option<u8>,
    }

    impl Encrypted {
        /// Wraps a connection after its handshake.
        pub fn new(stream: TlsStream<TcpStream>) -> Self {
            Encrypted { stream, ahead: None }
        }

        /// Returns the TCP connection below.
        pub fn tcp(&self) -> &TcpStream {
            self.stream.get_ref().0
        }

        /// Returns the protocol of the handshake. A client that names none speaks HTTP/1 (RFC 9113, 3.2).
        pub(super) fn chosen(&self) -> Protocol {
            match self.stream.get_ref().1.alpn_protocol() {
                Some(HTTP2) => Protocol::Http2,
                _ => Protocol::Http1,
            }
        }

        pub(super) fn poll_has_ended(&mut self, context: &mut Context<'_>) -> Poll<bool> {
            if self.ahead.is_some() {
                return Poll::Ready(false);
            }
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            self.ahead = buffer.filled().first().copied();
            Poll::Ready(read.is_err() || self.ahead.is_none())
        }
    }

    impl AsyncRead for Encrypted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if buffer.remaining() > 0
                && let Some(byte) = self.ahead.take()
            {
                buffer.put_slice(&[byte]);
                return Poll::Ready(Ok(()));
            }
            Pin::new(&mut self.stream).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for Encrypted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(context, bytes)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write_vectored(context, slices)
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
}
