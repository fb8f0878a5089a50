//! The native half of the Python package `pando`: thin classes over the library `pando-db`.
//!
//! ```text
//!   pando/*.py ──► Database, Snapshot, Transaction ──► handle.rs ──► pando
//!                  View, WritableView, Scan,       ──► source.rs
//!                  Cursor
//!                  ValueReader                     ──► values.rs
//!                  TypedView, TypedScan            ──► typed.rs ──► pando_rows
//!                  SqlConnection, SqlResult        ──► sql.rs ────► pando_sql
//!                  ChangeFeed, Consumer            ──► changes.rs
//!                  Arrow                           ──► arrow.rs ──► pando_arrow
//! ```
//!
//! 1. The lock of the interpreter is released around every call that can wait or copy much ([`guard::run`]). A value
//!    that memory holds is copied under it, as that takes less time than to release it.
//! 2. No lock of this crate is waited for while the interpreter's lock is held. Where code of Python can run under one
//!    (the records of a bulk load, the JSON of an iterator), the lock is only tried, and `pando.ThreadError` results.
//! 3. No panic leaves: it becomes `pando.InternalError`.
//! 4. A transaction belongs to the thread that began it, unless its caller says otherwise; then two threads that use it
//!    at the same time get `pando.ThreadError`.
//! 5. After a fork, every object of the parent raises `pando.ForkedError`, before it takes any lock.
//!
//! Reading order: `handle.rs`, `source.rs`, `view.rs`, `writable.rs`, `scan.rs`, `cursor.rs`, `values.rs`,
//! `database.rs`, `transaction.rs`, `hold.rs`; `codec.rs` (keys and values), `engine.rs` (calls of the library whose
//! names may change), `errors.rs`, `guard.rs`, `options.rs`; `typed_reads.rs`, `cells.rs`, `typed.rs` (typed tables);
//! `changes.rs`, `sql.rs`, `sql_rows.rs`, `arrow.rs`.
#![deny(missing_docs, unsafe_code)]

mod arrow;
mod cells;
mod changes;
mod codec;
mod cursor;
mod database;
mod engine;
mod errors;
mod guard;
mod handle;
mod hold;
mod options;
mod scan;
mod source;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod sql_rows;
mod transaction;
mod typed;
mod typed_reads;
mod values;
mod view;
mod writable;

use pyo3::prelude::*;

/// The module `pando._pando`. No class relies on the interpreter's lock, so that a free-threaded interpreter need not
/// have one.
#[pymodule(gil_used = false)]
fn _pando(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<database::Database>()?;
    module.add_class::<transaction::Snapshot>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<transaction::Savepoint>()?;
    module.add_class::<hold::CommitHold>()?;
    module.add_class::<view::View>()?;
    module.add_class::<writable::WritableView>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<cursor::Cursor>()?;
    module.add_class::<values::ValueReader>()?;
    module.add_class::<arrow::Arrow>()?;
    module.add_class::<changes::ChangeFeed>()?;
    module.add_class::<changes::Change>()?;
    module.add_class::<changes::Operation>()?;
    module.add_class::<changes::Consumer>()?;
    module.add_class::<typed::TypedView>()?;
    module.add_class::<typed::TypedScan>()?;
    module.add_function(wrap_pyfunction!(typed::ensure, module)?)?;
    module.add_function(wrap_pyfunction!(database::restore, module)?)?;
    module.add_function(wrap_pyfunction!(handle::after_fork, module)?)?;
    #[cfg(feature = "sql")]
    {
        module.add_class::<sql::SqlConnection>()?;
        module.add_class::<sql::SqlResult>()?;
        module.add_function(wrap_pyfunction!(sql::sqlite_version, module)?)?;
    }
    Ok(())
}
