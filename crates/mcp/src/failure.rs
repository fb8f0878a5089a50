//! What an agent reads when a call fails.

use pando::ErrorKind;

/// A message that says what is wrong and what to do.
#[derive(Debug)]
pub struct Failure(pub String);

/// A result, or what the agent reads instead.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Returns the failure for a wrong argument.
    pub fn argument(message: impl Into<String>) -> Self {
        Failure(message.into())
    }

    /// Returns the failure for a table that does not exist.
    pub fn no_table(name: &str) -> Self {
        Failure(format!("there is no table {name:?}; list_tables names all tables"))
    }
}

impl From<pando::Error> for Failure {
    fn from(error: pando::Error) -> Self {
        match error.kind() {
            ErrorKind::ReadOnly => Failure(format!(
                "{error}: the database is open for reading only, because another process writes it or \
                 because the server was started without --allow-writes"
            )),
            _ => Failure(error.to_string()),
        }
    }
}

impl From<sql::Error> for Failure {
    fn from(error: sql::Error) -> Self {
        if error.is_refused() {
            return Failure(format!(
                "{error}: statements can use only the tables of the database: no files, no extensions, and \
                 only pragmas about them"
            ));
        }
        Failure(error.to_string())
    }
}
