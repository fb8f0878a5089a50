//! The sockets on which a server listens.

use crate::wire::stream::Stream;
use pando::{Error, Result};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::{fs, future};
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
    tcp: TcpListener,
    address: SocketAddr,
    unix: Option<UnixSocket>,
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
    /// Listens for connections at `address`, and at the unix socket `path`. It must be called within a runtime.
    ///
    /// # Errors
    /// `Io` if one of them cannot be bound; `Invalid` if the path has a file that is not a socket, or that another
    /// server listens on.
    pub fn bind(address: SocketAddr, path: Option<&Path>) -> Result<Self> {
        let bound = |error| refused(address, error);
        let tcp = listen(address).map_err(bound)?;
        let address = tcp.local_addr().map_err(bound)?;
        let unix = path.map(UnixSocket::bind).transpose()?;
        Ok(Listeners { tcp, address, unix })
    }

    /// Returns the address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Those of accepting it, such as too many open files.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let unix = async {
            match &self.unix {
                Some(unix) => unix.listener.accept().await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.tcp.accept() => Ok(Incoming::Tcp(accepted?.0.into_std()?)),
            accepted = unix => Ok(Incoming::Unix(accepted?.0.into_std()?)),
        }
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
