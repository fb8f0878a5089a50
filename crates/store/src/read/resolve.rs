//! The look-up of one key, from the newest memtable to the oldest run, which every get takes.
//!
//! 1. [`sources`] defines the order: the open memtable, each sealed one with the runs that were attached with it, and
//!    last the table's own runs. The first that has an entry for the key decides.
//! 2. [`Snapshot::resolve`] follows that order within one call, and passes the value on in place: in a memtable, or in
//!    a page that the epoch keeps. It copies nothing and reads no large value.
//! 3. A [`Consumer`] determines what happens to the value; each look-up has one: a copy (`get`), a test for existence
//!    (`contains`), its length or place ([`super::get`]), the borrowed value ([`super::value_ref`]), or a copy if
//!    memory suffices ([`super::resident`]). A transaction looks at its own writes first.
//!
//! A cursor (`scan.rs`) makes a layer of each source, an explanation (`explain.rs`) a step, and a look-up of a prefix
//! (`first.rs`) a search.

use crate::read::snapshot::Snapshot;
use crate::state::view::{OpenMemtable, SealedMemtable, View};
use base::slots::EpochGuard;
use base::{CommitTs, Large, LargeRef, Result, TableId};
use memtable::Memtable;
use page::Value;
use run::{Delta, Leaf, Probe, Said};
use std::ptr;

/// A memtable, and the attached runs right below it, newest first: most have none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'v> {
    pub memtable: &'v Memtable,
    pub attached: &'v [Delta],
}

/// Returns what lies above the table's own runs, newest first, for a reader at `ts`.
#[inline(always)]
pub(crate) fn sources<'v>(
    open: &'v OpenMemtable,
    sealed: &'v [SealedMemtable],
    table: TableId,
    ts: CommitTs,
) -> impl Iterator<Item = Source<'v>> {
    let of_sealed = move |sealed: &'v SealedMemtable| Source {
        memtable: &sealed.memtable,
        attached: sealed.attached_for(table, ts),
    };
    std::iter::once(Source { memtable: &open.memtable, attached: &[] }).chain(sealed.iter().map(of_sealed))
}

/// The place of a value that [`Snapshot::resolve`] found.
pub(crate) enum Place<'p, 's> {
    /// A memtable, which the call keeps.
    Memtable(EpochGuard<'s>),
    /// A page, which stays until the consumer returns, or is pinned.
    Page(&'p Leaf<'p>),
}

/// The consumer of the value that a look-up finds.
///
/// It is a trait with a type for each look-up, and not an enum that the resolver returns: moving that enum cost a get
/// from a memtable 28 of 949 instructions. Methods are inlined by force, for the same reason.
pub(crate) trait Consumer<'s>: Sized {
    /// The result of the look-up for an existing key.
    type Output;

    /// Takes the value as it is stored at `place`: in a table with a TTL, after its date.
    fn value(self, stored: &[u8], place: Place<'_, 's>) -> Result<Option<Self::Output>>;

    /// Looks at the beginning of a value outside the pages, which the page with its reference has. `large` is called
    /// next.
    #[inline(always)]
    fn beginning(&mut self, _: Large<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes a value outside the pages. The call keeps it.
    fn large(self, large: LargeRef, call: EpochGuard<'s>) -> Result<Option<Self::Output>>;
}

impl Snapshot {
    /// Finds the newest entry of `key` within `call`, and passes its value to `consumer`. Returns `None` if the key
    /// does not exist, or if the consumer does, because the value has expired.
    #[inline(always)]
    pub(crate) fn resolve<'s, C: Consumer<'s>>(
        &'s self,
        call: EpochGuard<'s>,
        table: TableId,
        key: &[u8],
        consumer: C,
    ) -> Result<Option<C::Output>> {
        let view = ptr::from_ref(self.view(&call));
        // SAFETY: the view stays as long as the call lasts: in its epoch, and while it has left that to wait for a
        // page, when the slot says that it is suspended, which `reclaim` heeds. The call is moved into what uses the
        // view last, and no reference to the view leaves this function, or what it calls.
        let view = unsafe { &*view };
        if view.has_attached {
            return self.resolve_attached(view, call, table, key, consumer);
        }
        let ts = self.ts();
        match view.memtables().find_map(|memtable| memtable.get(table, key, ts)) {
            Some(Value::Inline(stored)) => return consumer.value(stored, Place::Memtable(call)),
            Some(Value::Large(large)) => return consumer.large(large.reference(), call),
            Some(Value::Deleted) => return Ok(None),
            None => {}
        }
        let pool = &self.store().pool;
        in_page(call, consumer, |call| view.tables.find(table, pool, call, key))
    }

    /// Finds the newest entry of `key` in a view that has attached runs between its memtables. See
    /// [`Snapshot::resolve`].
    #[cold]
    #[inline(never)]
    fn resolve_attached<'s, C: Consumer<'s>>(
        &'s self,
        view: &View,
        mut call: EpochGuard<'s>,
        table: TableId,
        key: &[u8],
        consumer: C,
    ) -> Result<Option<C::Output>> {
        let pool = &self.store().pool;
        for Source { memtable, attached } in sources(&view.open, &view.sealed, table, self.ts()) {
            match memtable.get(table, key, self.ts()) {
                Some(Value::Inline(stored)) => return consumer.value(stored, Place::Memtable(call)),
                Some(Value::Large(large)) => return consumer.large(large.reference(), call),
                Some(Value::Deleted) => return Ok(None),
                None => {}
            }
            match Delta::find_newest(attached, |delta| delta, pool, &mut call, Probe::new(key))? {
                Some(Said::Record(position)) => {
                    return in_page(call, consumer, |call| position.leaf(pool, call).map(Some));
                }
                Some(Said::Covered) => return Ok(None),
                None => {}
            }
        }
        in_page(call, consumer, |call| view.tables.find(table, pool, call, key))
    }
}

/// Passes on what `find` finds in a page.
#[inline(always)]
fn in_page<'s, C: Consumer<'s>>(
    mut call: EpochGuard<'s>,
    mut consumer: C,
    find: impl for<'g> FnOnce(&'g mut EpochGuard<'s>) -> Result<Option<Leaf<'g>>>,
) -> Result<Option<C::Output>> {
    let large = match find(&mut call)? {
        None => return Ok(None),
        Some(leaf) => match leaf.value() {
            Value::Inline(stored) => return consumer.value(stored, Place::Page(&leaf)),
            Value::Large(large) => {
                consumer.beginning(large)?;
                large.reference()
            }
            Value::Deleted => return Ok(None),
        },
    };
    consumer.large(large, call)
}
