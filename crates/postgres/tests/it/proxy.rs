//! A proxy between a client and the server, on a socket of its own. It counts round trips, and cuts connections.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Default)]
struct State {
    /// The number of times that a client sent something after the server had last spoken.
    round_trips: AtomicU64,
    /// How the next request that carries a commit is cut.
    cut: Mutex<Option<Cut>>,
    /// Whether new connections are refused.
    is_down: AtomicBool,
    /// Whether packets are dropped: connections stay, and nothing passes.
    is_silent: AtomicBool,
    /// Of how many requests one is cut; 0: none.
    cut_one_in: AtomicU64,
    /// The number of requests while some were cut.
    requests: AtomicU64,
    /// The bytes that servers have sent.
    sent_bytes: AtomicU64,
    /// Whether the server refuses to change the isolation of statements by themselves.
    refuses_isolation: AtomicBool,
}

/// The moment at which a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The request does not reach the server.
    BeforeTheRequest,
    /// Half of the request reaches the server.
    WithinTheRequest,
    /// The statements reach the server, and the end of the request does not, which is the `COMMIT` if there is one.
    BeforeTheEnd,
    /// The request reaches the server, and the response does not reach the client.
    BeforeTheResponse,
    /// The first byte of the response reaches the client.
    WithinTheResponse,
    /// The server says in its response that it crashes, because its disk is full, after it has committed.
    Panic,
}

impl Cut {
    /// All of them, in the order of time.
    pub const ALL: [Cut; 6] = [
        Cut::BeforeTheRequest,
        Cut::WithinTheRequest,
        Cut::BeforeTheEnd,
        Cut::BeforeTheResponse,
        Cut::WithinTheResponse,
        Cut::Panic,
    ];

    /// Returns whether the server has the whole request, and so commits.
    pub fn is_after_the_request(self) -> bool {
        matches!(self, Cut::BeforeTheResponse | Cut::WithinTheResponse | Cut::Panic)
    }
}

/// The length of the message `COMMIT`: its kind, its length, and the text with a zero.
const COMMIT_BYTES: usize = 1 + 4 + 7;

/// The error with which a server ends when its disk is full while it writes its log: kind, length, fields.
const PANIC: &[u8] = b"E\0\0\0\x25SPANIC\0VPANIC\0C53100\0Mdisk full\0\0";

impl State {
    /// Returns how the next request is cut while connections are rough, and delays one in ten.
    fn rough_cut(&self) -> Option<Cut> {
        let one_in = self.cut_one_in.load(Ordering::SeqCst);
        if one_in == 0 {
            return None;
        }
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        if number.is_multiple_of(10) {
            thread::sleep(Duration::from_millis(1 + number % 7));
        }
        let way = (number / one_in) % Cut::ALL.len() as u64;
        number.is_multiple_of(one_in).then(|| Cut::ALL[way as usize])
    }
}

pub struct Proxy {
    pub dir: PathBuf,
    state: Arc<State>,
    _dir: tempfile::TempDir,
}

impl Proxy {
    pub fn start(server: &Path) -> Proxy {
        let dir = tempfile::Builder::new().prefix("pando-proxy-").tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
        let (state, server) = (Arc::new(State::default()), server.join(".s.PGSQL.5432"));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if shared.is_down.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = UnixStream::connect(&server) else { continue };
                carry(client, server, Arc::clone(&shared));
            }
        });
        Proxy { dir: dir.path().to_owned(), state, _dir: dir }
    }

    /// Returns the round trips of `work`.
    pub fn round_trips<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        let before = self.state.round_trips.load(Ordering::SeqCst);
        let done = work();
        (self.state.round_trips.load(Ordering::SeqCst) - before, done)
    }

    /// Cuts the connection of the next request that carries a commit with writes.
    pub fn cut_next_commit(&self, cut: Cut) {
        *self.state.cut.lock().unwrap() = Some(cut);
    }

    /// Drops all packets from now on, or no longer. What was sent meanwhile is lost, and with it its connection.
    pub fn set_silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Cuts one in so many requests from now on, in each way in turn, and delays some; 0 ends it.
    pub fn set_rough(&self, cut_one_in: u64) {
        self.state.cut_one_in.store(cut_one_in, Ordering::SeqCst);
    }

    /// Returns the number of bytes that the server sent during `work`.
    pub fn sent_bytes<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        let before = self.state.sent_bytes.load(Ordering::SeqCst);
        let done = work();
        (self.state.sent_bytes.load(Ordering::SeqCst) - before, done)
    }

    /// Makes the server refuse to change the isolation of statements by themselves from now on, or no longer. It runs
    /// what was sent with that.
    pub fn refuse_isolation(&self, refuses: bool) {
        self.state.refuses_isolation.store(refuses, Ordering::SeqCst);
    }

    pub fn set_down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::SeqCst);
    }
}

/// The bytes by which a request with writes is known: they are the value, or the key, of a record that the test puts.
pub const MARK: &[u8] = b"marked-for-the-proxy";

/// The beginning of the statement that changes the isolation.
const SET: &[u8] = b"SET default_transaction_isolation";

fn carry(client: UnixStream, server: UnixStream, state: Arc<State>) {
    let has_spoken = Arc::new(AtomicBool::new(false));
    let is_muted: Arc<Mutex<Option<Cut>>> = Arc::default();
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (spoken, muted, shared) = (Arc::clone(&has_spoken), Arc::clone(&is_muted), Arc::clone(&state));
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(count @ 1..) = from_client.read(&mut buffer) {
            if spoken.swap(false, Ordering::SeqCst) {
                shared.round_trips.fetch_add(1, Ordering::SeqCst);
            }
            if shared.is_silent.load(Ordering::SeqCst) {
                continue;
            }
            if shared.refuses_isolation.load(Ordering::SeqCst)
                && let Some(at) = buffer[..count].windows(SET.len()).position(|window| window == SET)
            {
                buffer[at] = b'?';
            }
            let request = &buffer[..count];
            let is_marked = request.windows(MARK.len()).any(|window| window == MARK);
            let marked = if is_marked { shared.cut.lock().unwrap().take() } else { None };
            let cut = marked.or_else(|| shared.rough_cut());
            let passed = match cut {
                Some(Cut::BeforeTheRequest) => 0,
                Some(Cut::WithinTheRequest) => count / 2,
                Some(Cut::BeforeTheEnd) => count.saturating_sub(COMMIT_BYTES),
                Some(Cut::BeforeTheResponse | Cut::WithinTheResponse | Cut::Panic) | None => count,
            };
            if cut.is_some() && passed == count {
                *muted.lock().unwrap() = cut;
            }
            if to_server.write_all(&request[..passed]).is_err() || passed < count {
                break;
            }
        }
        let _ = to_server.shutdown(std::net::Shutdown::Both);
        let _ = from_client.shutdown(std::net::Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(count @ 1..) = from_server.read(&mut buffer) {
            // The server has done what was asked; its response is lost.
            let muted = *is_muted.lock().unwrap();
            if let Some(cut) = muted {
                let passed = match cut {
                    Cut::WithinTheResponse => &buffer[..1],
                    Cut::Panic => PANIC,
                    _ => &[],
                };
                let _ = to_client.write_all(passed);
                break;
            }
            state.sent_bytes.fetch_add(count as u64, Ordering::SeqCst);
            has_spoken.store(true, Ordering::SeqCst);
            if to_client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(std::net::Shutdown::Both);
        let _ = from_server.shutdown(std::net::Shutdown::Both);
    });
}
