//! Limits that statements have.

/// A limit on the statements of a connection. [SQLite's documentation](https://www.sqlite.org/limits.html) has the
/// default of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(i32)]
pub enum Limit {
    /// The longest text, blob or row in bytes, including intermediate results.
    ValueBytes = 0,
    /// The longest statement in bytes.
    SqlBytes = 1,
    /// The largest number of columns of a table, an index, a result or a clause.
    Columns = 2,
    /// The deepest nesting of an expression.
    ExpressionDepth = 3,
    /// The largest number of `SELECT`s that `UNION`, `INTERSECT` and `EXCEPT` combine.
    CompoundSelects = 4,
    /// The largest number of instructions of a prepared statement.
    Instructions = 5,
    /// The largest number of arguments of a function.
    FunctionArguments = 6,
    /// The largest number of attached databases.
    AttachedDatabases = 7,
    /// The longest pattern of `LIKE` and `GLOB` in bytes.
    PatternBytes = 8,
    /// The highest number of a parameter.
    Parameters = 9,
    /// The deepest nesting of triggers.
    TriggerDepth = 10,
    /// The largest number of threads that help to sort.
    WorkerThreads = 11,
    /// The deepest stack of the parser.
    ParserDepth = 12,
}
