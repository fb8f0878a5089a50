//! Clients that only take room, while others are measured: idle ones, slow ones, bodies without an end.
//!
//! What the server does with them is its business: to answer, refuse or close are all right. What counts is what the
//! others notice, and what memory it takes.

use crate::{Failure, Outcome};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Open files beside the crowd's.
const OTHER_FILES: u64 = 256;
/// How often each of those that send sends something.
const EVERY: Duration = Duration::from_millis(100);
/// How much of a body without an end comes at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Connections that are there until this is dropped.
#[derive(Debug)]
pub struct Crowd {
    idle: Vec<TcpStream>,
    senders: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Crowd {
    /// `count` connections on which nothing is ever said.
    ///
    /// # Errors
    /// `Usage` if the system does not allow so many open files.
    pub fn idle(address: SocketAddr, count: usize) -> Outcome<Self> {
        allow_files(count)?;
        let idle = (0..count).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
        Ok(Crowd { idle, senders: None })
    }

    /// `slow` clients that send their head a byte at a time, and `endless` ones whose body never ends.
    pub fn senders(address: SocketAddr, slow: usize, endless: usize) -> Outcome<Self> {
        let open =
            |_| TcpStream::connect(address).and_then(|stream| stream.set_nonblocking(true).map(|()| stream));
        let mut slow: Vec<_> = (0..slow).map(open).collect::<Result<_, _>>()?;
        let mut endless: Vec<_> = (0..endless).map(open).collect::<Result<_, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let work = move || {
            let head =
                b"GET /v0/entity?id=slow HTTP/1.1\r\nhost: bench\r\nx: ".iter().chain(b"y".iter().cycle());
            begin_bodies(&mut endless);
            // One after the other, not all at one moment: what they have in common is only that they are slow.
            let rest = EVERY / (slow.len() + endless.len()).max(1) as u32;
            let piece = [format!("{PIECE_BYTES:x}\r\n").as_bytes(), &[b'x'; PIECE_BYTES], b"\r\n"].concat();
            for byte in head {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let bytes = [*byte];
                // Cut anywhere: what comes of a body is no good framing any more, which the server has to bear too.
                let clients = slow.iter_mut().map(|stream| (stream, &bytes[..]));
                for (stream, next) in clients.chain(endless.iter_mut().map(|stream| (stream, &piece[..]))) {
                    // A client that was refused, or whose socket is full, is a client that takes room all the same.
                    let _ = stream.write(next);
                    thread::sleep(rest);
                }
            }
        };
        let thread = thread::Builder::new().name("crowd".to_owned()).spawn(work)?;
        Ok(Crowd { idle: Vec::new(), senders: Some((stop, thread)) })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.idle.clear();
        if let Some((stop, thread)) = self.senders.take() {
            stop.store(true, Ordering::SeqCst);
            let _ = thread.join();
        }
    }
}

fn begin_bodies(streams: &mut [TcpStream]) {
    for (number, stream) in streams.iter_mut().enumerate() {
        let head = format!(
            "PUT /v0/entity?id=endless{number} HTTP/1.1\r\nhost: bench\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        let _ = stream.write(head.as_bytes());
    }
}

fn allow_files(count: usize) -> Outcome<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = count as u64 + OTHER_FILES;
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).map_err(|error| {
        Failure::Usage(format!(
            "{count} connections need a limit of {wanted} open files (`ulimit -n`): {error}"
        ))
    })
}
