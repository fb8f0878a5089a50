//! The protocol of a connection.
//!
//! 1. A client of an encrypted connection chooses in the handshake (ALPN). Without a choice it is HTTP/1.
//! 2. On other connections, a client that knows that the server speaks HTTP/2 begins with the preface of HTTP/2
//!    (RFC 9113, 3.3). HTTP/1 has no method of that name. The upgrade from HTTP/1
//!    (`Upgrade: h2c`), which RFC 9113 has removed, is ignored.
//! 3. The bytes that were read to find this out are handed on, so that no request costs one more system call.

use crate::access::proxies::Peer;
use crate::serving::patience::Timers;
use crate::serving::service::Service;
use crate::serving::{http1, http2};
use crate::wire::stream::{Protocol, Stream};
use bytes::Bytes;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

/// The beginning of the preface of HTTP/2, by which it is recognized. The library checks the rest.
const PREFACE: &[u8] = b"PRI ";
/// The number of bytes that are read at first: enough for the head of a usual request.
const FIRST_BYTES: usize = 2048;

/// Serves `stream` until its client disconnects, exceeds a limit, or the server ends.
pub async fn serve(mut stream: Stream, service: Service, timers: Timers, mut ending: watch::Receiver<bool>) {
    stream.set_nodelay();
    let service = service.of(peer_of(&stream));
    let (protocol, ahead) = match stream.chosen() {
        Some(protocol) => (protocol, Bytes::new()),
        None => {
            let begun = tokio::select! {
                biased;
                begun = begin(&mut stream) => begun,
                _ = ending.wait_for(|ending| *ending) => return,
                () = timers.sleep(service.limits().head_timeout) => return,
            };
            match begun {
                Ok(begun) => begun,
                Err(error) => {
                    tracing::debug!(%error, "a connection ended before its first request");
                    return;
                }
            }
        }
    };
    match protocol {
        Protocol::Http1 => http1::serve(stream, ahead, service, timers, ending).await,
        Protocol::Http2 => http2::serve(stream, ahead, service, timers, ending).await,
    }
}

/// Returns the other end of a connection.
fn peer_of(stream: &Stream) -> Peer {
    match stream.tcp() {
        None => Peer::Unix,
        // What an IPv6 socket shows of a client of IPv4 is the same client.
        Some(tcp) => tcp.peer_addr().map_or(Peer::Unknown, |peer| Peer::Address(peer.ip().to_canonical())),
    }
}

/// Reads until the protocol is known. Returns it, and what was read.
async fn begin(stream: &mut Stream) -> io::Result<(Protocol, Bytes)> {
    let mut seen = Vec::new();
    loop {
        let more = poll_fn(|context| {
            // The buffer is on the stack: a connection that is idle from its beginning takes no memory for it.
            let mut space = [MaybeUninit::uninit(); FIRST_BYTES];
            let mut buffer = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
            seen.extend_from_slice(buffer.filled());
            Poll::Ready(Ok::<_, io::Error>(buffer.filled().len()))
        });
        let is_over = more.await? == 0;
        if let Some(protocol) = protocol_of(&seen) {
            return Ok((protocol, seen.into()));
        }
        if is_over {
            return Ok((Protocol::Http1, seen.into()));
        }
    }
}

/// Returns the protocol of a connection that begins with these bytes; `None` if they are too few.
fn protocol_of(seen: &[u8]) -> Option<Protocol> {
    let compared = seen.len().min(PREFACE.len());
    if seen[..compared] != PREFACE[..compared] {
        return Some(Protocol::Http1);
    }
    (compared == PREFACE.len()).then_some(Protocol::Http2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::serving::app::App;
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{sleep, timeout};

    #[test]
    fn the_first_bytes_show_the_protocol() {
        for few in ["", "P", "PRI"] {
            assert_eq!(protocol_of(few.as_bytes()), None, "{few}");
        }
        for first in ["GET / HTTP/1.1\r\n", "PUT", "PATCH", "PRINT", "\r\n", "\0", "pri * HTTP/2.0"] {
            assert_eq!(protocol_of(first.as_bytes()), Some(Protocol::Http1), "{first}");
        }
        for first in ["PRI ", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            assert_eq!(protocol_of(first.as_bytes()), Some(Protocol::Http2), "{first}");
        }
    }

    /// Serves a connection whose server ends while the client has sent `first`, and sends `rest` afterwards. Returns
    /// what the client gets, and the time from the end of the server to that of the connection.
    fn serve_to_end(first: &[u8], rest: &[u8]) -> (String, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let app = App::new(Config::new(dir.path())).unwrap();
        let service = Service::new(app.parts.clone(), &app.config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let timers = Timers::new(runtime.handle().clone());
        let took = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let stream = Stream::Tcp(listener.accept().await.unwrap().0);
            let (ending, ended) = watch::channel(false);
            let ends = async {
                client.write_all(first).await.unwrap();
                sleep(Duration::from_millis(300)).await;
                let begun = Instant::now();
                ending.send(true).unwrap();
                client.write_all(rest).await.unwrap();
                let mut got = Vec::new();
                let _ = client.read_to_end(&mut got).await;
                (String::from_utf8(got).unwrap(), begun.elapsed())
            };
            let serves = serve(stream, service, timers, ended);
            timeout(Duration::from_secs(20), async { tokio::join!(serves, ends).1 }).await.unwrap()
        });
        app.end().unwrap();
        took
    }

    #[test]
    fn the_end_of_a_server_does_not_wait_for_the_rest_of_a_head() {
        for first in
            ["GET", "GET /healthz HTTP/1.1\r\nhost: a\r\n", "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\nGET /"]
        {
            let (got, took) = serve_to_end(first.as_bytes(), b"");
            assert!(took < Duration::from_secs(3), "{first:?}: {took:?}");
            assert_eq!(got.starts_with("HTTP/1.1 200"), first.ends_with("GET /"), "{got}");
        }
        let (got, took) = serve_to_end(b"GET /healthz HTTP/1.1\r\n", b"host: a\r\n\r\n");
        assert!(got.starts_with("HTTP/1.1 200") && took < Duration::from_secs(3), "{took:?}: {got}");
    }
}
