//! Copies from and to files of SQLite, with their progress.

use super::script::failure;
use super::show::bar;
use crate::failure::Outcome;
use crate::text;
use indicatif::ProgressBar;
use sql::{Sql, SqliteFile};
use std::path::Path;

/// Copies an SQLite file into the database.
pub fn import_sqlite(sql: &Sql, file: &SqliteFile) -> Outcome {
    let mut progress = CopyBar::new();
    let report = file.import_into(sql, |now| progress.show(now));
    progress.bar.finish_and_clear();
    let report = report.map_err(failure)?;
    eprintln!("imported {} tables, {} rows", report.tables, text::count(report.rows));
    Ok(())
}

/// Writes all tables to a new SQLite file.
pub fn export_sqlite(sql: &Sql, file: &Path) -> Outcome {
    let mut progress = CopyBar::new();
    let report = sql::export_sqlite(sql, file, |now| progress.show(now));
    progress.bar.finish_and_clear();
    let report = report.map_err(failure)?;
    eprintln!("exported {} tables, {} rows", report.tables, text::count(report.rows));
    Ok(())
}

/// Shows how far a copy is.
struct CopyBar {
    bar: ProgressBar,
    has_named: bool,
}

impl CopyBar {
    fn new() -> Self {
        CopyBar { bar: bar(), has_named: false }
    }

    /// The first call names what is left out, before anything is written.
    fn show(&mut self, now: &sql::CopyProgress) {
        if !std::mem::replace(&mut self.has_named, true) {
            now.left_out.iter().for_each(|left_out| self.bar.suspend(|| eprintln!("left out: {left_out}")));
        }
        if !now.table.is_empty() {
            self.bar.set_message(format!("{}: {} rows", now.table, text::count(now.rows)));
        }
    }
}
