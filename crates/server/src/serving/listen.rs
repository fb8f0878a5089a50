//! The sockets on which a server listens.

use crate::config::Socket;
use crate::wire::stream::Stream;
use pando::{Error, Result};
use std::fs;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// The number of connections that the system keeps until they are accepted. If a burst exceeds it, each client tries
/// again after a second.
const BACKLOG: u32 = 4096;

/// A connection that was accepted by one thread, for another one.
#[derive(Debug)]
pub enum Incoming {
    /// From a client anywhere.
    Tcp(std::net::TcpStream),
    /// From a client on this machine.
    Unix(std::os::unix::net::UnixStream),
}

impl Incoming {
    /// Hands the connection to the event loop of this thread.
    ///
    /// # Errors
    /// Those of registering the socket.
    pub fn into_stream(self) -> io::Result<Stream> {
        Ok(match self {
            Incoming::Tcp(socket) => Stream::Tcp(TcpStream::from_std(socket)?),
            Incoming::Unix(socket) => Stream::Unix(UnixStream::from_std(socket)?),
        })
    }
}

/// The sockets on which a server listens.
#[derive(Debug)]
pub struct Listeners {
    all: Vec<Listener>,
    /// The socket that is asked first, in turn, so that clients of one do not keep those of another waiting.
    turn: AtomicUsize,
    address: Option<SocketAddr>,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    /// A socket whose file belongs to the service manager.
    Given(UnixListener),
    Unix(UnixSocket),
}

/// A unix socket, whose file is removed at the end.
#[derive(Debug)]
struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Listeners {
    /// Listens for connections at the sockets in `given`, or without any at `address`, and at the unix socket `path`.
    /// It must be called within a runtime.
    ///
    /// # Errors
    /// `Io` if one of them cannot be bound; `Invalid` if `path` is a file of another kind, or if another server
    /// listens there.
    pub fn new(given: &[Socket], address: SocketAddr, path: Option<&Path>) -> Result<Self> {
        let failed = |error| Error::io("use a socket that was opened before the server started", error);
        let mut all = given.iter().map(Listener::of).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        if given.is_empty() {
            all.push(Listener::Tcp(listen(address).map_err(|error| refused(address, error))?));
        }
        let first = all.iter().find_map(|listener| match listener {
            Listener::Tcp(tcp) => Some(tcp.local_addr()),
            _ => None,
        });
        let address = first.transpose().map_err(|error| refused(address, error))?;
        if let Some(path) = path {
            all.push(Listener::Unix(UnixSocket::bind(path)?));
        }
        Ok(Listeners { all, turn: AtomicUsize::new(0), address })
    }

    /// Returns the address of the first socket that other machines may reach, with the actual port; `None` if there are
    /// only unix sockets.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Those of accepting it, such as too many open files.
    pub async fn accept(&self) -> io::Result<Incoming> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        // Relaxed: only one thread accepts.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.all.len();
        for at in 0..count {
            if let Poll::Ready(accepted) = self.all[(turn + at) % count].poll_accept(context) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    }
}

impl Listener {
    /// Takes a socket that listens already.
    fn of(socket: &Socket) -> io::Result<Self> {
        Ok(match socket {
            Socket::Tcp(socket) => {
                accepts(socket)?;
                let socket = socket.try_clone()?;
                socket.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(socket)?)
            }
            Socket::Unix(socket) => {
                accepts(socket)?;
                let socket = socket.try_clone()?;
                socket.set_nonblocking(true)?;
                Listener::Given(UnixListener::from_std(socket)?)
            }
        })
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        let unix = match self {
            Listener::Tcp(tcp) => {
                let (stream, _) = ready!(tcp.poll_accept(context))?;
                return Poll::Ready(Ok(Incoming::Tcp(stream.into_std()?)));
            }
            Listener::Given(unix) => unix,
            Listener::Unix(unix) => &unix.listener,
        };
        let (stream, _) = ready!(unix.poll_accept(context))?;
        Poll::Ready(Ok(Incoming::Unix(stream.into_std()?)))
    }
}

/// Checks that a socket accepts connections, and is not a connection itself.
fn accepts(socket: impl AsFd) -> io::Result<()> {
    // Apple's systems cannot say.
    #[cfg(target_vendor = "apple")]
    let accepts = socket.as_fd().try_clone_to_owned().is_ok();
    #[cfg(not(target_vendor = "apple"))]
    let accepts = rustix::net::sockopt::socket_acceptconn(socket)?;
    match accepts {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it does not accept connections")),
    }
}

impl UnixSocket {
    /// Binds `path`. The socket of a server that no longer runs is replaced.
    fn bind(path: &Path) -> Result<Self> {
        let shown = path.display();
        let found = fs::symlink_metadata(path);
        if found.as_ref().is_ok_and(|found| !found.file_type().is_socket()) {
            return Err(Error::invalid(format!(
                "{shown} is not a socket: choose another path for --unix-socket"
            )));
        }
        if found.is_ok() {
            match std::os::unix::net::UnixStream::connect(path) {
                Ok(_) => {
                    return Err(Error::invalid(format!(
                        "another server listens on {shown}: choose another path for --unix-socket"
                    )));
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)
                        .map_err(|error| Error::io(format!("remove the old socket {shown}"), error))?;
                }
                Err(error) => return Err(Error::io(format!("try the socket {shown}"), error)),
            }
        }
        let listener =
            UnixListener::bind(path).map_err(|error| Error::io(format!("listen on {shown}"), error))?;
        Ok(UnixSocket { listener, path: path.to_owned() })
    }
}

/// Returns an error that the address could not be bound, with advice.
fn refused(address: SocketAddr, error: io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::AddrInUse => {
            " (another process uses the port; choose another with --listen, or port 0 for a free one)"
        }
        ErrorKind::AddrNotAvailable => {
            " (this machine does not have the address; 0.0.0.0 means all of its addresses)"
        }
        ErrorKind::PermissionDenied => " (ports below 1024 may need root; choose another with --listen)",
        _ => "",
    };
    Error::io(format!("listen on {address}{advice}"), error)
}

/// Listens for connections at `address`. It must be called within a runtime.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A new server can bind although connections of the previous one linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
