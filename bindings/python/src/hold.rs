//! The commit gate, held for the last attempts of a transaction that had conflicts.

use crate::errors;
use crate::guard::run;
use crate::handle::Handle;
use crate::transaction::Transaction;
use pyo3::prelude::*;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// What holds back the commits of all others, until it is released. A timer of Python's does that in any case: the
/// holder may wait for a commit of another thread.
#[pyclass(frozen, module = "pando._pando")]
pub struct CommitHold {
    handle: Arc<Handle>,
    inner: Mutex<Option<pando::CommitHold>>,
}

impl CommitHold {
    /// Holds back commits from now on. Returns `None` if they are held back already.
    pub fn take(py: Python<'_>, handle: &Arc<Handle>) -> PyResult<Option<Self>> {
        let hold = handle.open(py)?.try_hold_commits();
        Ok(hold.map(|hold| CommitHold { handle: Arc::clone(handle), inner: Mutex::new(Some(hold)) }))
    }
}

#[pymethods]
impl CommitHold {
    /// Commits a transaction, past the gate as long as it is held. Returns the number of the commit.
    fn commit(&self, py: Python<'_>, tx: PyRef<'_, Transaction>) -> PyResult<u64> {
        let transaction = tx.begun().end(py)?.ok_or_else(|| errors::closed(py, "the transaction"))?;
        run(py, || {
            let held = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            match held.as_ref() {
                Some(hold) => Ok(hold.commit(transaction)?),
                None => {
                    drop(held);
                    Ok(transaction.commit()?)
                }
            }
        })
    }

    /// Lets others commit. It waits for a commit of the holder, and has no effect a second time.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_process(py)?;
        run(py, || {
            drop(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
            Ok(())
        })
    }
}

impl Drop for CommitHold {
    fn drop(&mut self) {
        // In the child of a fork a thread of the parent may have the lock of the gate.
        if !self.handle.is_of_this_process() {
            mem::forget(self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
