//! What a command ends with when it does not succeed: a line for the person, an exit code for the script.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or the key is absent |
//! | 2 | the command line, or an option that contradicts what is stored |
//! | 3 | the files are damaged, or are not a Pando database |
//! | 4 | another process has the database open |
//! | 5 | conflicts that retries did not resolve |

use pando::{Error, ErrorKind};
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The engine says so.
    Engine(Error),
    /// The operating system refused `what`.
    System { what: String, cause: io::Error },
    /// The key is absent.
    Absent(String),
    /// The arguments do not fit each other or their input.
    Usage(String),
    /// A file that is read has something wrong in it, or something was found untrue.
    Failed(String),
    /// Files are damaged, as the command has said in detail.
    Damaged(String),
    /// It was said already; the exit code.
    Reported(u8),
    /// Whoever reads our output has seen enough, as `head` does. Not an error.
    ReaderGone,
}

impl Failure {
    /// A refusal of the operating system.
    pub fn system(what: impl Display, cause: io::Error) -> Self {
        Failure::System { what: what.to_string(), cause }
    }

    /// A failed write to standard output.
    pub fn stdout(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::system("write to standard output", cause),
        }
    }

    /// Writes the failure to standard error and answers the exit code.
    pub fn report(&self) -> ExitCode {
        // A closed pipe or a full disk changes nothing about the exit code.
        let _ = self.write(&mut io::stderr());
        ExitCode::from(self.code())
    }

    /// Writes the failure, and what to do.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        if matches!(self, Failure::ReaderGone | Failure::Reported(_)) {
            return Ok(());
        }
        let help = self.help().map_or(String::new(), |help| format!("help: {help}\n"));
        out.write_all(format!("error: {}\n{help}", self.message()).as_bytes())
    }

    /// What happened, in a line.
    pub fn message(&self) -> String {
        match self {
            Failure::Engine(error) => error.to_string(),
            Failure::System { what, cause } => format!("cannot {what}: {cause}"),
            Failure::Absent(message)
            | Failure::Usage(message)
            | Failure::Failed(message)
            | Failure::Damaged(message) => message.clone(),
            Failure::Reported(_) => "it was said already".to_owned(),
            Failure::ReaderGone => "whoever reads the output has seen enough".to_owned(),
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::ReaderGone => 0,
            Failure::Reported(code) => *code,
            Failure::System { .. } | Failure::Absent(_) | Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Damaged(_) => 3,
            Failure::Engine(error) => match error.kind() {
                ErrorKind::Invalid | ErrorKind::Mismatch => 2,
                ErrorKind::Corruption | ErrorKind::Foreign => 3,
                ErrorKind::Locked => 4,
                ErrorKind::Conflict | ErrorKind::SnapshotTooOld => 5,
                _ => 1,
            },
        }
    }

    /// What to do, where the message does not say it.
    fn help(&self) -> Option<&'static str> {
        let Failure::Engine(error) = self else { return None };
        Some(match error.kind() {
            ErrorKind::Missing => "check the path and the name; `put` and `import` create what is missing",
            ErrorKind::Corruption => {
                "keep the directory as it is; restore from a copy, or run `pando salvage`"
            }
            ErrorKind::Foreign => "name the directory of a Pando database that this version can read",
            ErrorKind::Locked => "wait until that process has closed the database",
            ErrorKind::Conflict | ErrorKind::SnapshotTooOld => "nothing was written; run the command again",
            ErrorKind::Full => "nothing was written; make room and run the command again",
            ErrorKind::Mismatch => "leave the option out to use what is stored",
            ErrorKind::Latched => "mend the cause, then run the command again",
            ErrorKind::Indeterminate => "read back whether it is there",
            _ => return None,
        })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_documented_code() {
        let code = |kind| Failure::Engine(Error::new(kind, "it happened")).code();
        assert_eq!(
            [ErrorKind::Missing, ErrorKind::Full, ErrorKind::Io, ErrorKind::Latched].map(code),
            [1; 4]
        );
        assert_eq!([ErrorKind::Invalid, ErrorKind::Mismatch].map(code), [2; 2]);
        assert_eq!([ErrorKind::Corruption, ErrorKind::Foreign].map(code), [3; 2]);
        assert_eq!(code(ErrorKind::Locked), 4);
        assert_eq!([ErrorKind::Conflict, ErrorKind::SnapshotTooOld].map(code), [5; 2]);
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert_eq!(Failure::stdout(io::ErrorKind::BrokenPipe.into()).code(), 0);
        assert_eq!(Failure::stdout(io::ErrorKind::StorageFull.into()).code(), 1);
    }
}
