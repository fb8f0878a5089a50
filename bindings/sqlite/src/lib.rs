//! SQLite's C interface on Pando, under SQLite's own names: see `docs/sqlite-library.md`. Everything is in
//! `pando-db-sqlite`; this crate only makes it a library of C, of which `install` makes `libpando_sqlite3.so`.
#![deny(missing_docs)]

extern crate pando_sqlite as _;
