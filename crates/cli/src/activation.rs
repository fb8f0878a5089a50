//! Socket activation: sockets that the service manager has opened before it started the server (`sd_listen_fds(3)`).
//!
//! 1. `LISTEN_PID` must be this process; otherwise the sockets are somebody else's. `LISTEN_FDS` is their number.
//! 2. Each must be a listening TCP or unix socket. Anything else is an error, because the server would be unreachable
//!    where its operator expects it.
//! 3. A name in `LISTEN_FDNAMES` says which clients a socket is for. All sockets are for clients of HTTP, except for
//!    those with the name of another protocol, which are refused.

use crate::failure::{Failure, Outcome};
use listenfd::ListenFd;
use server::Socket;
use std::sync::Arc;

/// Names of sockets for clients that are served in another way.
const OTHERS: [(&str, &str); 1] = [("redis", "--redis")];

/// Returns the sockets that the service manager has opened for this process.
///
/// # Errors
/// A usage error if one of them cannot be served.
pub fn sockets() -> Outcome<Vec<Socket>> {
    let process = std::env::var("LISTEN_PID").ok().and_then(|digits| digits.parse::<u32>().ok());
    if process != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut passed = ListenFd::from_env();
    (0..passed.len()).map(|index| socket(&mut passed, index, names.split(':').nth(index))).collect()
}

/// Takes the socket with that index and name.
fn socket(passed: &mut ListenFd, index: usize, name: Option<&str>) -> Outcome<Socket> {
    // The first one has the number 3, after the standard streams.
    let shown = match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("socket {} of LISTEN_FDS ({name})", index + 3),
        None => format!("socket {} of LISTEN_FDS", index + 3),
    };
    if let Some((name, option)) = OTHERS.into_iter().find(|(other, _)| Some(*other) == name) {
        return Err(Failure::Usage(format!(
            "{shown} is for clients of {name}, which cannot be served at a socket of the service manager: \
             use {option}"
        )));
    }
    if let Ok(Some(tcp)) = passed.take_tcp_listener(index) {
        return Ok(Socket::Tcp(Arc::new(tcp)));
    }
    match passed.take_unix_listener(index) {
        Ok(Some(unix)) => Ok(Socket::Unix(Arc::new(unix))),
        Ok(None) | Err(_) => Err(Failure::Usage(format!(
            "{shown} is neither a TCP nor a unix socket that accepts connections: use ListenStream= in the \
             unit of the socket, without Accept=yes"
        ))),
    }
}
