//! One connection, from its first byte to its last.
//!
//! 1. Requests are served one after the other. At the server's end the one under way is answered, and no other.
//! 2. A connection on which nothing happens is closed: no request begun, no byte written and nothing being worked on
//!    for as long as a head may take. That covers clients that never speak, that speak a byte at a time without coming
//!    to the end of a head, and that do not take what they are sent. How long a body may pause is for `receive` to say.
//! 3. Instead of a timer for each request there is one for each connection, which rings seldom and looks at counters.

use crate::app::Service;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at};

/// The timer rings so many times within the time that nothing may happen.
const LOOKS: u32 = 4;

/// What happens on a connection. One thread writes and reads it.
#[derive(Debug, Default)]
pub struct Signs {
    /// Requests begun, and writes made.
    events: AtomicU64,
    /// Whether a request is being worked on, or what is sent next for one.
    working: AtomicBool,
}

impl Signs {
    fn note(&self) {
        // Relaxed: one thread alone looks at it.
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether it is the server that keeps the client waiting, not the other way round.
    pub fn set_working(&self, working: bool) {
        // Relaxed: as above.
        self.working.store(working, Ordering::Relaxed);
    }
}

/// Serves `stream` until its client leaves, is given up, or the server ends.
pub async fn serve(
    stream: TcpStream,
    service: Service,
    mut ending: watch::Receiver<bool>,
    patience: Duration,
    head_bytes: usize,
) {
    let _ = stream.set_nodelay(true);
    let signs = Arc::new(Signs::default());
    let mut http = http1::Builder::new();
    http.max_buf_size(head_bytes);
    let answer = service_fn(|request| {
        signs.note();
        signs.set_working(true);
        let answer = service.answer(request);
        let signs = &signs;
        async move {
            let answer = answer.await;
            signs.set_working(false);
            answer.map(|response| response.map(|body| body.watched_by(signs)))
        }
    });
    let watched = Watched { stream, signs: Arc::clone(&signs) };
    let mut connection = pin!(http.serve_connection(TokioIo::new(watched), answer));
    let ending = async move { ending.wait_for(|ending| *ending).await.is_ok() };
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        _ = ending => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = connection => outcome,
                () = silence(&signs, patience) => return,
            }
        }
        () = silence(&signs, patience) => {
            tracing::debug!("a connection on which nothing happened was closed");
            return;
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Returns once nothing has happened for `patience`.
async fn silence(signs: &Signs, patience: Duration) {
    let between = patience / LOOKS;
    let mut look = interval_at(Instant::now() + between, between);
    let (mut seen, mut quiet) = (0, 0);
    loop {
        look.tick().await;
        // Relaxed on both: one thread alone looks at them.
        let events = signs.events.load(Ordering::Relaxed);
        // Relaxed: as above.
        if events != seen || signs.working.load(Ordering::Relaxed) {
            (seen, quiet) = (events, 0);
        } else {
            quiet += 1;
            if quiet >= LOOKS {
                return;
            }
        }
    }
}

/// A socket that notes what is written to it.
struct Watched {
    stream: TcpStream,
    signs: Arc<Signs>,
}

impl Watched {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }

    fn noted(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.signs.note();
        }
        written
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write(context, bytes);
        self.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write_vectored(context, slices);
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
