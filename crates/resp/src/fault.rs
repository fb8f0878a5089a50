//! Why a command fails.

use pando::{Error, ErrorKind};
use std::borrow::Cow;
use std::fmt;

/// The outcome of a part of a command.
pub type Done<T = ()> = Result<T, Fault>;

/// Why a command fails.
#[derive(Debug)]
pub enum Fault {
    /// The reply, which begins with a word for programs, such as `ERR`.
    Reply(Cow<'static, str>),
    /// The stream cannot be understood any further: the connection ends after this reply.
    Protocol(Cow<'static, str>),
    /// The error of the database.
    Database(Error),
}

impl Fault {
    /// The key holds another type.
    pub const WRONG_TYPE: Fault =
        Fault::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The arguments make no sense together.
    pub const SYNTAX: Fault = Fault::fixed("ERR syntax error");
    /// An argument or a value is no integer.
    pub const NOT_INTEGER: Fault = Fault::fixed("ERR value is not an integer or out of range");
    /// An argument or a value is no number.
    pub const NOT_FLOAT: Fault = Fault::fixed("ERR value is not a valid float");
    /// The key does not exist.
    pub const NO_KEY: Fault = Fault::fixed("ERR no such key");
    /// The reply would be too long.
    pub const TOO_LONG_REPLY: Fault =
        Fault::fixed("ERR the reply is too long; ask for less at a time, for example with SCAN");

    /// The replies of all clients together would be too long.
    pub const TOO_MANY_REPLIES: Fault =
        Fault::fixed("ERR too many long replies wait for their clients; try again later");

    /// The command would hold more of a collection in memory than it may.
    pub const TOO_LARGE: Fault =
        Fault::fixed("ERR this command reads the whole collection, which may have at most 512 MiB");

    /// Returns the fault of a wrong number of arguments.
    pub fn wrong_arity(command: &str) -> Self {
        Fault::new(format!("ERR wrong number of arguments for '{command}' command"))
    }

    /// Returns a fault with this reply.
    pub const fn fixed(reply: &'static str) -> Self {
        Fault::Reply(Cow::Borrowed(reply))
    }

    /// Returns a fault after which the connection ends.
    pub const fn protocol(what: &'static str) -> Self {
        Fault::Protocol(Cow::Borrowed(what))
    }

    /// Returns a fault with this reply.
    pub fn new(reply: String) -> Self {
        Fault::Reply(Cow::Owned(reply))
    }

    /// Returns whether the transaction or the snapshot is of no use any further: because of a conflict, its age, or a
    /// table that was dropped. The command can succeed in another one.
    pub fn must_run_again(&self) -> bool {
        matches!(self, Fault::Database(error) if error.is_retryable() || error.kind() == ErrorKind::Missing)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Database(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Reply(reply) => f.write_str(reply),
            Fault::Protocol(what) => write!(f, "ERR Protocol error: {what}"),
            Fault::Database(error) => {
                let word = match error.kind() {
                    ErrorKind::Full => "OOM",
                    ErrorKind::ReadOnly | ErrorKind::Fenced => "READONLY",
                    ErrorKind::Latched | ErrorKind::Io => "MISCONF",
                    ErrorKind::Conflict => "BUSY",
                    _ => "ERR",
                };
                write!(f, "{word} {error}")
            }
        }
    }
}
