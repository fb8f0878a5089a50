//! Holding back the commits of others, for a transaction that has had conflicts.

use crate::code::pando_code;
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{self, Out, Ref, handle, handles};
use crate::tx::pando_tx;
use binding::Hold;
use std::ptr;

/// What holds back the commits of all other transactions, so that one that begins after it meets no conflict. Others
/// wait for it without a limit of time, so hold them back briefly. Free it with pando_hold_free.
pub struct pando_hold {
    _private: (),
}

handles! {
    pando_hold = Hold, "what holds back commits", b"pandohld";
}

/// Holds back all commits from now on, except for those that are being made at this moment. Returns PANDO_ABSENT if
/// another hold does so already: wait a little, and call again. A thread that holds commits back must commit with
/// pando_hold_commit only: another commit of its own waits forever. It is for the last attempts of a transaction that
/// had conflicts each time. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_try_hold_commits(
    db: *mut pando_db,
    hold: *mut *mut pando_hold,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, hold, error) = unsafe { (Ref::of_mut(db), Out::new(hold), Out::new(error)) };
    call(error, || {
        let hold = hold.required("hold", ptr::null_mut())?;
        let Some(taken) = Hold::take(db.get()?)? else { return Ok(pando_code::PANDO_ABSENT) };
        hold.set(handle(taken));
        Ok(pando_code::PANDO_OK)
    })
}

/// Commits a transaction as pando_tx_commit does, past the commits that are held back. After pando_hold_release it is
/// pando_tx_commit. Fails with PANDO_INVALID if the transaction belongs to another database; it is then rolled back.
/// Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_hold_commit(
    hold: *mut pando_hold,
    tx: *mut pando_tx,
    commit_number: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (hold, tx, commit_number, error) =
        unsafe { (Ref::of_mut(hold), Ref::of_mut(tx), Out::new(commit_number), Out::new(error)) };
    call(error, || {
        commit_number.set(0);
        commit_number.set(tx.get()?.begun.commit_within(hold.get()?)?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Lets others commit, at the latest after a call of pando_hold_commit that runs. Another thread can do it after some
/// time, in case the holder waits for one of the others. A second call has no effect. Threads: any number at the same
/// time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_hold_release(
    hold: *mut pando_hold,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (hold, error) = unsafe { (Ref::of_mut(hold), Out::new(error)) };
    call(error, || {
        hold.get()?.release()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Releases and frees what holds back commits.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_hold_free(hold: *mut pando_hold) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(hold) };
}
