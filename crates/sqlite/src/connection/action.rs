//! What statements do and name.

/// An action of a statement, or a name in it, as SQLite reports it when it prepares the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action<'a> {
    /// Creates an index.
    CreateIndex {
        /// The name of the index.
        index: &'a str,
        /// The name of the index's table.
        table: &'a str,
    },
    /// Creates a table.
    CreateTable {
        /// The name of the table.
        table: &'a str,
    },
    /// Creates an index of a temporary table.
    CreateTempIndex {
        /// The name of the index.
        index: &'a str,
        /// The name of the index's table.
        table: &'a str,
    },
    /// Creates a temporary table.
    CreateTempTable {
        /// The name of the table.
        table: &'a str,
    },
    /// Creates a temporary trigger.
    CreateTempTrigger {
        /// The name of the trigger.
        trigger: &'a str,
        /// The name of the trigger's table.
        table: &'a str,
    },
    /// Creates a temporary view.
    CreateTempView {
        /// The name of the view.
        view: &'a str,
    },
    /// Creates a trigger.
    CreateTrigger {
        /// The name of the trigger.
        trigger: &'a str,
        /// The name of the trigger's table.
        table: &'a str,
    },
    /// Creates a view.
    CreateView {
        /// The name of the view.
        view: &'a str,
    },
    /// Deletes rows.
    Delete {
        /// The name of the table.
        table: &'a str,
    },
    /// Drops an index.
    DropIndex {
        /// The name of the index.
        index: &'a str,
        /// The name of the index's table.
        table: &'a str,
    },
    /// Drops a table.
    DropTable {
        /// The name of the table.
        table: &'a str,
    },
    /// Drops an index of a temporary table.
    DropTempIndex {
        /// The name of the index.
        index: &'a str,
        /// The name of the index's table.
        table: &'a str,
    },
    /// Drops a temporary table.
    DropTempTable {
        /// The name of the table.
        table: &'a str,
    },
    /// Drops a temporary trigger.
    DropTempTrigger {
        /// The name of the trigger.
        trigger: &'a str,
        /// The name of the trigger's table.
        table: &'a str,
    },
    /// Drops a temporary view.
    DropTempView {
        /// The name of the view.
        view: &'a str,
    },
    /// Drops a trigger.
    DropTrigger {
        /// The name of the trigger.
        trigger: &'a str,
        /// The name of the trigger's table.
        table: &'a str,
    },
    /// Drops a view.
    DropView {
        /// The name of the view.
        view: &'a str,
    },
    /// Inserts rows.
    Insert {
        /// The name of the table.
        table: &'a str,
    },
    /// Runs a pragma.
    Pragma {
        /// The name of the pragma.
        name: &'a str,
        /// The argument of the pragma, if it has one.
        argument: Option<&'a str>,
    },
    /// Reads a column.
    Read {
        /// The name of the table.
        table: &'a str,
        /// The column. It is empty if the statement reads rows and no column of them.
        column: &'a str,
    },
    /// Is or contains a `SELECT`.
    Select,
    /// Begins or ends a transaction.
    Transaction {
        /// `BEGIN`, `COMMIT` or `ROLLBACK`.
        operation: &'a str,
    },
    /// Updates a column.
    Update {
        /// The name of the table.
        table: &'a str,
        /// The name of the column.
        column: &'a str,
    },
    /// Attaches a database.
    Attach {
        /// The name of the file, if it is a literal.
        file: Option<&'a str>,
    },
    /// Detaches a database.
    Detach {
        /// The name of the database.
        database: &'a str,
    },
    /// Alters a table.
    AlterTable {
        /// The schema, for example `main`.
        schema: &'a str,
        /// The name of the table.
        table: &'a str,
    },
    /// Rebuilds an index.
    Reindex {
        /// The name of the index.
        index: &'a str,
    },
    /// Gathers statistics for the planner.
    Analyze {
        /// The name of the table.
        table: &'a str,
    },
    /// Creates a virtual table.
    CreateVirtualTable {
        /// The name of the table.
        table: &'a str,
        /// The name of the table's module.
        module: &'a str,
    },
    /// Drops a virtual table.
    DropVirtualTable {
        /// The name of the table.
        table: &'a str,
        /// The name of the table's module.
        module: &'a str,
    },
    /// Calls a function.
    Function {
        /// The name of the function.
        name: &'a str,
    },
    /// Begins or ends a savepoint.
    Savepoint {
        /// `BEGIN`, `RELEASE` or `ROLLBACK`.
        operation: &'a str,
        /// The name of the savepoint.
        name: &'a str,
    },
    /// Uses a recursive common table expression.
    Recursive,
    /// An action that this version does not know.
    Unknown {
        /// SQLite's number for the action.
        code: i32,
    },
}

/// An action, and its place in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access<'a> {
    /// The action.
    pub action: Action<'a>,
    /// The schema that the action concerns, for example `main` or `temp`, if it concerns one.
    pub schema: Option<&'a str>,
    /// The trigger or view that contains the action, if the statement itself does not.
    pub within: Option<&'a str>,
}

/// The decision about an [`Access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The statement may do it.
    Allow,
    /// The statement reads `NULL` in place of the column. For other actions SQLite's documentation says what this
    /// means.
    Ignore,
    /// The statement fails before it begins ([`Error::is_denied`](super::Error::is_denied)).
    Deny,
}

/// The callback of a connection.
pub(super) type Authorizer = Box<dyn FnMut(Access<'_>) -> Decision + Send>;

impl<'a> Action<'a> {
    /// Returns the action with SQLite's number `code`.
    pub(super) fn with(code: i32, first: Option<&'a str>, second: Option<&'a str>) -> Action<'a> {
        let (argument, file) = (second, first);
        let (first, second) = (first.unwrap_or(""), second.unwrap_or(""));
        match code {
            1 => Action::CreateIndex { index: first, table: second },
            2 => Action::CreateTable { table: first },
            3 => Action::CreateTempIndex { index: first, table: second },
            4 => Action::CreateTempTable { table: first },
            5 => Action::CreateTempTrigger { trigger: first, table: second },
            6 => Action::CreateTempView { view: first },
            7 => Action::CreateTrigger { trigger: first, table: second },
            8 => Action::CreateView { view: first },
            9 => Action::Delete { table: first },
            10 => Action::DropIndex { index: first, table: second },
            11 => Action::DropTable { table: first },
            12 => Action::DropTempIndex { index: first, table: second },
            13 => Action::DropTempTable { table: first },
            14 => Action::DropTempTrigger { trigger: first, table: second },
            15 => Action::DropTempView { view: first },
            16 => Action::DropTrigger { trigger: first, table: second },
            17 => Action::DropView { view: first },
            18 => Action::Insert { table: first },
            19 => Action::Pragma { name: first, argument },
            20 => Action::Read { table: first, column: second },
            21 => Action::Select,
            22 => Action::Transaction { operation: first },
            23 => Action::Update { table: first, column: second },
            24 => Action::Attach { file },
            25 => Action::Detach { database: first },
            26 => Action::AlterTable { schema: first, table: second },
            27 => Action::Reindex { index: first },
            28 => Action::Analyze { table: first },
            29 => Action::CreateVirtualTable { table: first, module: second },
            30 => Action::DropVirtualTable { table: first, module: second },
            31 => Action::Function { name: second },
            32 => Action::Savepoint { operation: first, name: second },
            33 => Action::Recursive,
            code => Action::Unknown { code },
        }
    }
}
