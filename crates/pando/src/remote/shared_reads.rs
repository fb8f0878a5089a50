//! The reads that a remote snapshot and a remote transaction have in common.
//!
//! Each follows from `multi_get` or `cursor`, which the two types have of their own. They are methods of the types, as
//! those of the engine are, so that a program that moves to a remote store needs no other imports.

/// Writes the methods, within an `impl` of a type that has `multi_get` and `cursor`.
macro_rules! shared_reads {
    () => {
        /// Returns the value of `key`, or `None` if the key does not exist. A transaction sees its own writes, too.
        ///
        /// # Errors
        /// `Missing` if the handle of the table is stale; otherwise those of
        /// [`RemoteSnapshot`](crate::remote::RemoteSnapshot).
        pub fn get(&self, table: &store::Table, key: impl AsRef<[u8]>) -> base::Result<Option<Vec<u8>>> {
            let mut found = self.multi_get(table, &[key.as_ref()])?;
            Ok(found.pop().flatten())
        }

        /// Returns the values of many keys, in the order of `keys`, in at most one round trip.
        pub fn multi_get<K: AsRef<[u8]>>(
            &self,
            table: &store::Table,
            keys: &[K],
        ) -> base::Result<Vec<Option<Vec<u8>>>> {
            self.multi_get_within(table, keys, usize::MAX)
        }

        /// Returns the value of `key` as [`Self::get`] does, as a [`ValueRef`](crate::ValueRef) that owns its bytes.
        pub fn get_ref(
            &self,
            table: &store::Table,
            key: impl AsRef<[u8]>,
        ) -> base::Result<Option<store::ValueRef<'_>>> {
            Ok(self.get(table, key)?.map(store::ValueRef::of))
        }

        /// Calls `with` on the value of `key`. Returns `None` if the key does not exist.
        pub fn get_with<T>(
            &self,
            table: &store::Table,
            key: impl AsRef<[u8]>,
            with: impl FnOnce(&[u8]) -> T,
        ) -> base::Result<Option<T>> {
            Ok(self.get(table, key)?.map(|value| with(&value)))
        }

        /// Calls `with` on the value of `key`, which is read as a whole.
        pub fn get_beginning<T>(
            &self,
            table: &store::Table,
            key: impl AsRef<[u8]>,
            _: usize,
            with: impl FnOnce(store::Beginning<'_>) -> T,
        ) -> base::Result<Option<T>> {
            self.get_with(table, key, |value| with(store::Beginning::whole(value)))
        }

        /// Calls `with` on the first record whose key begins with `prefix`: on the rest of the key, and on the value.
        pub fn first_with_prefix<T>(
            &self,
            table: &store::Table,
            prefix: impl AsRef<[u8]>,
            with: impl FnOnce(&[u8], &[u8]) -> T,
        ) -> base::Result<Option<T>> {
            let prefix = prefix.as_ref();
            let mut cursor = self.cursor(table, base::Span::prefix(prefix))?;
            Ok(cursor.next()?.map(|(key, value)| with(&key[prefix.len()..], value)))
        }

        /// Returns whether `key` exists. It reads the value.
        pub fn contains(&self, table: &store::Table, key: impl AsRef<[u8]>) -> base::Result<bool> {
            Ok(self.get(table, key)?.is_some())
        }

        /// Returns the length of the value of `key` in bytes. It reads the value.
        pub fn value_len(&self, table: &store::Table, key: impl AsRef<[u8]>) -> base::Result<Option<u64>> {
            Ok(self.get(table, key)?.map(|value| value.len() as u64))
        }

        /// Returns a reader of the value of `key`. The call reads the whole value.
        pub fn value_reader(
            &self,
            table: &store::Table,
            key: impl AsRef<[u8]>,
        ) -> base::Result<Option<store::ValueReader>> {
            Ok(self.get(table, key)?.map(store::ValueReader::of))
        }

        /// Returns copies of the records of `span` in key order, or in descending order with `.rev()`. A transaction
        /// sees its own writes, too.
        pub fn range(
            &self,
            table: &store::Table,
            span: impl Into<base::Span>,
        ) -> base::Result<crate::cursor::Range<'_, crate::remote::RemoteCursor<'_>>> {
            crate::cursor::Range::new(|span| self.cursor(table, span), span.into())
        }

        /// Returns the records whose keys begin with `prefix`, in key order.
        pub fn prefix(
            &self,
            table: &store::Table,
            prefix: impl AsRef<[u8]>,
        ) -> base::Result<crate::cursor::Range<'_, crate::remote::RemoteCursor<'_>>> {
            self.range(table, base::Span::prefix(prefix.as_ref()))
        }
    };
}
pub(super) use shared_reads;
