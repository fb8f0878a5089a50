//! Commands that pop, and wait until there is something to pop.
//!
//! The thread of the connection waits. It does not read what the client sends meanwhile, so it asks the system whether
//! the client has left; what waits to be read does not hide that.

use super::{INVALID_TOKEN, Session};
use crate::commands::COMMANDS;
use crate::commit::{Job, Work};
use crate::figures::Figures;
use crate::host::Permission;
use crate::wire::numbers::parse_f64;
use crate::wire::request::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a client that waits for an element is checked, and its token.
const WAIT: Duration = Duration::from_millis(250);
/// What the system reports of a client that sends nothing more. Errors are reported in any case.
#[cfg(target_os = "linux")]
const LEFT: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const LEFT: PollFlags = PollFlags::HUP;

/// A client that waits for an element, as it is counted.
struct Blocked<'f>(&'f Figures);

impl<'f> Blocked<'f> {
    fn begin(figures: &'f Figures) -> Self {
        figures.blocked.fetch_add(1, Ordering::SeqCst);
        Blocked(figures)
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.blocked.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Session {
    /// Runs a command that pops, and waits until there is something to pop.
    pub(super) fn wait_for(&mut self, index: usize, command: Command) {
        let is_first = matches!(COMMANDS[index].name, "blmpop" | "bzmpop");
        let timeout = parse_f64(&command[if is_first { 1 } else { command.len() - 1 }]);
        let patience = match timeout {
            Some(seconds) if (0.0..1e9).contains(&seconds) => seconds,
            Some(seconds) if seconds < 0.0 => return self.out.error("ERR timeout is negative"),
            _ => return self.out.error("ERR timeout is not a float or out of range"),
        };
        let until = (patience > 0.0).then(|| Instant::now() + Duration::from_secs_f64(patience));
        self.flush();
        let commands = Arc::new(vec![(index, command)]);
        let shared = Arc::clone(&self.shared);
        let mut is_waiting = None;
        loop {
            let seen = self.shared.committer.pushes.count();
            if is_waiting.is_some() && !self.may_still_write() {
                return;
            }
            let work = match is_waiting {
                None => Work::Commands(Arc::clone(&commands), 0),
                Some(_) => Work::Waiting(Arc::clone(&commands)),
            };
            let job = Job::new(self.database, self.out.protocol, work);
            match self.shared.committer.run(&job, &self.shared.around) {
                Err(reply) => return self.out.error(&reply),
                Ok(outcome) => {
                    let is_late = until.is_some_and(|until| Instant::now() >= until);
                    if !outcome.would_block || is_late {
                        return self.out.append(outcome.replies);
                    }
                }
            }
            if is_waiting.is_none() {
                is_waiting = Some(Blocked::begin(&shared.around.figures));
            }
            while self.shared.committer.pushes.count() == seen {
                let left = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    break;
                }
                self.shared.committer.pushes.wait(seen, left.min(WAIT));
                if self.has_left() {
                    self.is_over = true;
                    return;
                }
                if !self.may_still_write() {
                    return;
                }
            }
        }
    }

    /// Asks again what the client may do. If its token does not allow writes any more, replies with an error and ends
    /// the connection.
    fn may_still_write(&mut self) -> bool {
        self.permission = None;
        let may_write = self.permission() == Permission::Write;
        if !may_write {
            self.out.error(INVALID_TOKEN);
            self.is_over = true;
        }
        may_write
    }

    /// Returns whether the client has closed the connection, or the door is closing.
    fn has_left(&self) -> bool {
        self.shared.is_ending.load(Ordering::SeqCst) || has_hung_up(&self.stream)
    }
}

/// Returns whether the other end has closed the connection, at least for sending, also if it has sent more before.
/// Changes nothing of the socket, to which another thread may write.
fn has_hung_up(stream: &TcpStream) -> bool {
    let mut asked = [PollFd::new(stream, LEFT)];
    match poll(&mut asked, Some(&Timespec::default())) {
        Ok(_) => asked[0].revents().intersects(LEFT | PollFlags::HUP | PollFlags::ERR),
        // A signal came first: the next look finds out.
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

#[cfg(test)]
mod tests {
    use super::has_hung_up;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn what_waits_to_be_read_does_not_hide_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut open, mut half, mut closed) = (connect(), connect(), connect());
        let own: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        for client in [&mut open, &mut half, &mut closed] {
            client.write_all(b"PING\r\n").unwrap();
        }
        assert!(own.iter().all(|stream| !has_hung_up(stream)));
        half.shutdown(Shutdown::Write).unwrap();
        drop(closed);
        let until = Instant::now() + Duration::from_secs(20);
        while own.iter().filter(|stream| has_hung_up(stream)).count() < 2 {
            assert!(Instant::now() < until);
        }
        assert!(!has_hung_up(&own[0]));
        drop(open);
    }
}
