//! The form of a response: text, or a stream of Arrow.

#[cfg(feature = "arrow")]
use super::columns::Columns;
use super::results::{Format, Results};
use crate::wire::pipe::{Stopped, Writer};
use crate::wire::problem::{Answer, Problem};
use sql::{ColumnInfo, ValueRef};

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text.
    Text(Format),
    /// A stream of Arrow.
    #[cfg(feature = "arrow")]
    Arrow,
}

/// The response that is being written.
pub enum Output {
    /// Text.
    Text(Results),
    /// A stream of Arrow.
    #[cfg(feature = "arrow")]
    Arrow(Columns),
}

/// Why a result is not written.
#[derive(Debug)]
pub enum Failed {
    /// The client is gone, or the time is over.
    Stopped,
    /// The form has no place for it.
    #[cfg_attr(not(feature = "arrow"), expect(dead_code, reason = "text has a place for everything"))]
    Problem(Box<Problem>),
}

impl From<Stopped> for Failed {
    fn from(_: Stopped) -> Self {
        Failed::Stopped
    }
}

#[cfg(feature = "arrow")]
impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Failed::Problem(Box::new(problem))
    }
}

#[cfg(feature = "arrow")]
impl Failed {
    /// Returns the problem of a failure that is no stop.
    pub fn problem(self) -> Problem {
        match self {
            Failed::Problem(problem) => *problem,
            Failed::Stopped => Problem::bad_request("the response was stopped"),
        }
    }
}

impl Output {
    /// Creates a writer of a response into a pipe.
    pub fn new(form: Form, writer: Writer) -> Self {
        match form {
            Form::Text(format) => Output::Text(Results::new(format, writer)),
            #[cfg(feature = "arrow")]
            Form::Arrow => Output::Arrow(Columns::new(writer)),
        }
    }

    /// Returns whether [`Output::begin`] needs the declared types of columns.
    pub fn needs_types(&self) -> bool {
        match self {
            Output::Text(_) => false,
            #[cfg(feature = "arrow")]
            Output::Arrow(_) => true,
        }
    }

    /// Writes the beginning of a query: its columns, of which the first ones may have declared types.
    #[cfg_attr(not(feature = "arrow"), expect(unused_variables, reason = "text has no types"))]
    pub fn begin(&mut self, names: &[String], declared: Vec<ColumnInfo>) -> Result<(), Failed> {
        match self {
            Output::Text(results) => Ok(results.begin(names)?),
            #[cfg(feature = "arrow")]
            Output::Arrow(columns) => {
                let mut declared = declared.into_iter().map(|column| column.declared);
                let info = |name: &String| ColumnInfo::new(name.clone(), declared.next().flatten());
                columns.begin(names.iter().map(info).collect())
            }
        }
    }

    /// Writes a row of the query.
    pub fn row<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>) -> Result<(), Failed> {
        match self {
            Output::Text(results) => Ok(results.row(values)?),
            #[cfg(feature = "arrow")]
            Output::Arrow(columns) => columns.row(values),
        }
    }

    /// Writes the end of the query, and how many rows it has changed.
    pub fn end(&mut self, changes: u64) -> Result<(), Failed> {
        match self {
            Output::Text(results) => {
                results.end(changes);
                Ok(())
            }
            #[cfg(feature = "arrow")]
            Output::Arrow(columns) => columns.end(),
        }
    }

    /// Writes the result of a statement without rows, and how many it has changed.
    pub fn changes(&mut self, changes: u64) -> Result<(), Failed> {
        match self {
            Output::Text(results) => Ok(results.changes(changes)?),
            #[cfg(feature = "arrow")]
            Output::Arrow(_) => Ok(()),
        }
    }

    /// Writes the end of all results, or the error.
    pub fn finish(self, outcome: Answer<()>) {
        match self {
            Output::Text(results) => results.finish(outcome),
            #[cfg(feature = "arrow")]
            Output::Arrow(columns) => columns.finish(outcome),
        }
    }
}
