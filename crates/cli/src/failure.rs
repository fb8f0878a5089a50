//! The failures of commands: a message for people, and an exit code for scripts.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or the key is absent |
//! | 2 | the command line, or an option that contradicts what is stored |
//! | 3 | the files are damaged, or are not a Pando database |
//! | 4 | another process has the database open |
//! | 5 | conflicts that retries did not resolve |
//! | 6 | `doctor` has found something that needs attention |

use pando::{Error, ErrorKind};
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The kind of the running command, as far as the advice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The command creates what is missing.
    Creating,
    /// The command reads backups.
    Restoring,
    /// The command reads the readable part of a damaged database.
    Salvaging,
    /// The command changes an existing database in one transaction.
    Changing,
    /// The command uses an existing database in another way.
    Using,
}

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// An error that names a bucket, or an object in it.
    #[cfg_attr(not(feature = "ship"), allow(dead_code, reason = "without shipping there are no buckets"))]
    Bucket(Error),
    /// An error of a folder of backups or of a file in it. The database is not affected.
    Backups(Error),
    /// The operating system refused `what`.
    System { what: String, cause: io::Error },
    /// The key is absent.
    Absent(String),
    /// The arguments contradict each other or their input.
    Usage(String),
    /// A file has invalid content, or a verification failed.
    Failed(String),
    /// A server did not respond. The request may have been executed.
    Unanswered(String),
    /// A failure after a part was done, and what was kept.
    Partly { cause: Box<Failure>, kept: String },
    /// The files are damaged, as the command has reported in detail.
    Damaged(String),
    /// A failure that was already reported, with its exit code.
    Reported(u8),
    /// The reader of standard output has closed it, as `head` does. This is not an error.
    ReaderGone,
}

impl Failure {
    /// Returns a refusal of the operating system.
    pub fn system(what: impl Display, cause: io::Error) -> Self {
        Failure::System { what: what.to_string(), cause }
    }

    /// Returns the failure of a write to standard output.
    pub fn stdout(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::system("write to standard output", cause),
        }
    }

    /// Adds to the failure what was kept. If it is not certain whether the failed request was executed, `unsure` is
    /// added.
    pub fn keeping(self, kept: String, unsure: &str) -> Self {
        let is_unsure = match &self {
            Failure::Unanswered(_) => true,
            Failure::Engine(error) | Failure::Bucket(error) => error.kind() == ErrorKind::Indeterminate,
            _ => false,
        };
        let kept = if is_unsure { format!("{kept}; {unsure}") } else { kept };
        Failure::Partly { cause: Box::new(self), kept }
    }

    /// Writes the failure to standard error and returns the exit code.
    pub fn report(&self, doing: Doing) -> ExitCode {
        // A closed pipe or a full disk does not change the exit code.
        let _ = self.write(&mut io::stderr(), doing);
        ExitCode::from(self.code())
    }

    /// Writes the failure and advice.
    pub fn write(&self, out: &mut impl io::Write, doing: Doing) -> io::Result<()> {
        if matches!(self, Failure::ReaderGone | Failure::Reported(_)) {
            return Ok(());
        }
        let help = self.help(doing).map_or(String::new(), |help| format!("help: {help}\n"));
        out.write_all(format!("error: {}\n{help}", self.message()).as_bytes())
    }

    /// Returns the message in one line.
    pub fn message(&self) -> String {
        match self {
            Failure::Engine(error) | Failure::Bucket(error) | Failure::Backups(error) => error.to_string(),
            Failure::System { what, cause } => format!("cannot {what}: {cause}"),
            Failure::Absent(message)
            | Failure::Usage(message)
            | Failure::Failed(message)
            | Failure::Unanswered(message)
            | Failure::Damaged(message) => message.clone(),
            Failure::Partly { cause, kept } => format!("{}\n{kept}", cause.message()),
            Failure::Reported(_) => "the failure was already reported".to_owned(),
            Failure::ReaderGone => "the reader of the output closed it".to_owned(),
        }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::ReaderGone => 0,
            Failure::Reported(code) => *code,
            Failure::System { .. } | Failure::Absent(_) | Failure::Failed(_) | Failure::Unanswered(_) => 1,
            Failure::Partly { cause, .. } => cause.code(),
            Failure::Usage(_) => 2,
            Failure::Damaged(_) => 3,
            Failure::Engine(error) | Failure::Bucket(error) | Failure::Backups(error) => match error.kind() {
                ErrorKind::Invalid | ErrorKind::Mismatch => 2,
                ErrorKind::Corruption | ErrorKind::Foreign => 3,
                ErrorKind::Locked => 4,
                ErrorKind::Conflict | ErrorKind::SnapshotTooOld => 5,
                _ => 1,
            },
        }
    }

    /// Returns advice, if the message does not contain it.
    fn help(&self, doing: Doing) -> Option<&'static str> {
        let error = match self {
            Failure::Engine(error) => error,
            Failure::Bucket(error) => return help_of_bucket(error.kind()),
            Failure::Backups(error) => return help_of_backups(error.kind()),
            Failure::Partly { cause, .. } => return cause.help_of_rest(doing),
            _ => return None,
        };
        Some(match error.kind() {
            ErrorKind::Missing => match doing {
                Doing::Using | Doing::Changing if error.message().contains("there is no table") => {
                    "`pando tables DIR` lists the tables of keys and values; `put` and `import` create them. \
                     Tables of SQL are separate: use `pando sql DIR`"
                }
                Doing::Using if error.message().contains("there is no consumer") => {
                    "`pando consumers DIR` lists the consumers"
                }
                Doing::Using | Doing::Changing => {
                    "check the path and the name; `put` and `import` create what is missing"
                }
                Doing::Restoring => "name a folder that `pando backup` has filled, or the files of a backup",
                Doing::Creating | Doing::Salvaging => "check the path and the name",
            },
            // The message says which file to remove, and what that costs.
            ErrorKind::Corruption if error.message().contains("remove the file to drop the consumer") => {
                "the tables are not affected; all other files must stay as they are"
            }
            ErrorKind::Corruption => match doing {
                Doing::Restoring => {
                    "the backup is damaged or was cut off: copy it again, or restore another one"
                }
                Doing::Salvaging => "keep the directory as it is; restore from a backup",
                _ => "keep the directory as it is; restore from a backup, or run `pando salvage`",
            },
            ErrorKind::Foreign => match doing {
                Doing::Restoring => "name a backup that this version of Pando can read",
                _ if error.message().contains("not the data file") => {
                    "name the directory of a Pando database; if it is one, its data file is damaged: keep \
                     the directory as it is, and restore from a backup or run `pando salvage`"
                }
                _ => "name the directory of a Pando database that this version of Pando can read",
            },
            ErrorKind::Locked => "wait until that process has closed the database",
            ErrorKind::Conflict | ErrorKind::SnapshotTooOld if doing == Doing::Changing => {
                "nothing was written; run the command again"
            }
            ErrorKind::Conflict | ErrorKind::SnapshotTooOld => "run the command again",
            ErrorKind::Full if doing == Doing::Changing => {
                "nothing was written; make room and run the command again"
            }
            ErrorKind::Full => "make room and run the command again",
            ErrorKind::Mismatch if is_of_an_option(error) => "leave the option out to use what is stored",
            ErrorKind::Latched => "fix the cause, then run the command again",
            ErrorKind::Indeterminate => "read the data back to see whether the change was stored",
            _ => return None,
        })
    }
}

impl Failure {
    /// Returns advice after a part was done. It must not claim that nothing was done.
    fn help_of_rest(&self, doing: Doing) -> Option<&'static str> {
        match self {
            Failure::Engine(error) => match error.kind() {
                ErrorKind::Full => Some("make room and run the command again"),
                ErrorKind::Conflict | ErrorKind::SnapshotTooOld => Some("run the command again"),
                _ => self.help(doing),
            },
            _ => None,
        }
    }
}

/// Returns advice about an error that names a bucket.
fn help_of_bucket(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Corruption => {
            "keep the bucket as it is: put the named object back from an older version in the store, \
             restore an earlier state (--commit, --at), or ship to a new prefix, which begins with a base"
        }
        ErrorKind::Foreign => "name the prefix of one database, which this version of Pando can read",
        ErrorKind::Missing => {
            "name a bucket or folder to which `pando ship` or `pando serve --ship` ships; \
             `pando restore URL --list` shows the databases and states in it"
        }
        ErrorKind::Conflict => "run the command again",
        ErrorKind::Full => "make room and run the command again",
        _ => return None,
    })
}

/// Returns advice about an error of a folder of backups.
fn help_of_backups(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Corruption | ErrorKind::Foreign => {
            "the database is not affected: take a full backup, without --incremental and --since, which \
             begins a new chain; delete the damaged file, and those that build on it, when you do not need \
             them"
        }
        ErrorKind::Missing => "name a file that `pando backup` has written",
        ErrorKind::Full => "make room and run the command again",
        _ => return None,
    })
}

/// Returns whether an option asks for something else than what a database or a table has. The kind of the error alone
/// is not enough: a backup of another database is a mismatch, too. The messages are those of the engine, also if they
/// come from a server.
fn is_of_an_option(error: &Error) -> bool {
    ["but the options ask for", "was asked for"].iter().any(|words| error.message().contains(words))
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
    fn advice_fits_what_was_done() {
        let help = |kind, doing| Failure::Engine(Error::new(kind, "it happened")).help(doing).unwrap();
        for kind in [ErrorKind::Missing, ErrorKind::Corruption, ErrorKind::Foreign, ErrorKind::Full] {
            let said = help(kind, Doing::Restoring);
            for other in ["`put`", "salvage", "directory of a Pando", "nothing was written"] {
                assert!(!said.contains(other), "{kind:?}: {said}");
            }
        }
        assert!(!help(ErrorKind::Corruption, Doing::Salvaging).contains("salvage"));
        for kind in [ErrorKind::Missing, ErrorKind::Corruption, ErrorKind::Foreign] {
            let said = Failure::Bucket(Error::new(kind, "it happened")).help(Doing::Using).unwrap();
            assert!(!said.contains("salvage") && !said.contains("directory"), "{kind:?}: {said}");
        }
        let damaged = Failure::Backups(Error::corruption("backup-000002-full: it is damaged"));
        assert_eq!(damaged.code(), 3);
        let said = damaged.help(Doing::Using).unwrap();
        assert!(said.contains("full backup") && !said.contains("salvage"), "{said}");
        // Of these, only a command that is one transaction can know that it has written nothing.
        for kind in [ErrorKind::Full, ErrorKind::Conflict, ErrorKind::SnapshotTooOld] {
            for doing in [Doing::Using, Doing::Creating, Doing::Restoring, Doing::Salvaging] {
                assert!(!help(kind, doing).contains("nothing"), "{kind:?}, {doing:?}");
            }
            assert!(help(kind, Doing::Changing).contains("nothing was written"), "{kind:?}");
        }
        assert!(help(ErrorKind::Missing, Doing::Using).contains("`put`"));
        assert!(help(ErrorKind::Missing, Doing::Changing).contains("`put`"));
        let no_table = Failure::Engine(Error::new(ErrorKind::Missing, "there is no table \"fruit\""));
        assert!(no_table.help(Doing::Using).unwrap().contains("`pando sql DIR`"));
        let partly = |cause: Failure| cause.keeping("7 are there".to_owned(), "more may be");
        let full = partly(Failure::Engine(Error::new(ErrorKind::Full, "it is full")));
        assert_eq!((full.message().as_str(), full.code()), ("it is full\n7 are there", 1));
        assert_eq!(full.help(Doing::Creating), Some("make room and run the command again"));
        let unsure = partly(Failure::Unanswered("it broke".to_owned()));
        assert_eq!(unsure.message(), "it broke\n7 are there; more may be");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert_eq!(Failure::stdout(io::ErrorKind::BrokenPipe.into()).code(), 0);
        assert_eq!(Failure::stdout(io::ErrorKind::StorageFull.into()).code(), 1);
    }
}
