//! Clients that only occupy the server while others are measured: idle ones, slow ones, and bodies without an end.
//!
//! The server may respond, refuse or close. What counts is the effect on the other clients, and the memory.

use crate::{Failure, Outcome};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The number of open files in addition to the crowd's.
const OTHER_FILES: u64 = 256;
/// The interval at which each sending client sends something.
const EVERY: Duration = Duration::from_millis(100);
/// The number of bytes of an endless body that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Connections that stay open until this is dropped.
#[derive(Debug)]
pub struct Crowd {
    idle: Vec<TcpStream>,
    senders: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Crowd {
    /// Opens `count` connections on which nothing is sent.
    ///
    /// # Errors
    /// `Usage` if the system does not allow so many open files.
    pub fn idle(address: SocketAddr, count: usize) -> Outcome<Self> {
        allow_files(count)?;
        let idle = (0..count).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
        Ok(Crowd { idle, senders: None })
    }

    /// Opens `slow` connections that send their head a byte at a time, and `endless` ones whose body never ends.
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
            // The clients send one after the other and not all at once, because they are unrelated.
            let rest = EVERY / (slow.len() + endless.len()).max(1) as u32;
            let piece = [format!("{PIECE_BYTES:x}\r\n").as_bytes(), &[b'x'; PIECE_BYTES], b"\r\n"].concat();
            for byte in head {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let bytes = [*byte];
                // A write may stop anywhere, so the body soon has invalid framing, which the server must also tolerate.
                let clients = slow.iter_mut().map(|stream| (stream, &bytes[..]));
                for (stream, next) in clients.chain(endless.iter_mut().map(|stream| (stream, &piece[..]))) {
                    // A client that was refused, or whose socket is full, still occupies the server.
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
