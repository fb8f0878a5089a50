//! `pando advise`: which layout each table wants, and what switching would cost.

use crate::failure::{Failure, Outcome};
use crate::open::Existing;
use crate::output::{self, Cell, Format, FormatArgs, Rows};
use crate::text;
use clap::Args;
use pando::{Advice, Layout, Operations};
use std::io::{self, Write};
use std::time::Duration;

#[derive(Args, Debug)]
pub struct AdviseArgs {
    #[command(flatten)]
    database: Existing,
    /// Look-ups that each table is asked for: counts do not outlive a process, so say what yours are, if only in
    /// proportion
    #[arg(long, value_name = "N", default_value_t = 0)]
    reads: u64,
    /// Records that cursors pass in each table
    #[arg(long, value_name = "N", default_value_t = 0)]
    scanned: u64,
    /// Puts and deletes that each table takes
    #[arg(long, value_name = "N", default_value_t = 0)]
    writes: u64,
    #[command(flatten)]
    format: FormatArgs,
}

/// `pando advise`.
pub fn run(args: &AdviseArgs) -> Outcome {
    let db = args.database.open()?;
    let assumed = Operations { gets: args.reads, moves: args.scanned, writes: args.writes };
    let advice = db.advise(Some(assumed))?;
    let write = match args.format.format() {
        Format::Table => for_people(&advice),
        format => rows(&advice, format),
    };
    write.map_err(Failure::stdout)
}

fn for_people(advice: &[Advice]) -> io::Result<()> {
    let mut out = output::stdout();
    for of in advice {
        writeln!(out, "{}: {}", text::show(of.table.as_bytes()), verdict(of))?;
        let (records, bytes, runs) = (text::count(of.records), text::size(of.record_bytes), of.runs);
        let (layout, pages, space) = (of.layout, of.get_pages, of.space_amplification);
        writeln!(
            out,
            "  {layout} now: {records} records, {bytes}, {runs} runs; {pages} pages a get, {space:.2}x space"
        )?;
        for (layout, costs) in [(Layout::BTree, of.btree), (Layout::Lsm, of.lsm)] {
            writeln!(
                out,
                "  as {layout}: a get {}, a scanned record {}, a write {} ({:.1} times its bytes)",
                nanoseconds(costs.get_ns),
                nanoseconds(costs.move_ns),
                nanoseconds(costs.write_ns),
                costs.write_amplification
            )?;
        }
        match of.even_gets_per_write {
            Some(even) => writeln!(out, "  with fewer than {even:.1} gets for each write, lsm is cheaper")?,
            None if of.btree.write_ns <= of.lsm.write_ns => {
                writeln!(out, "  btree is cheaper to write, too")?
            }
            None => writeln!(out, "  lsm is cheaper to read, too")?,
        }
        let (bytes, seconds) = (text::size(of.switch_bytes), Duration::from_secs_f64(of.switch_seconds));
        writeln!(out, "  a switch writes {bytes}, about {} of merging", text::time(seconds))?;
    }
    out.flush()
}

fn verdict(of: &Advice) -> String {
    match of.advised {
        None => "say how it is used: --reads, --scanned, --writes".to_owned(),
        Some(advised) if advised == of.layout => format!("{advised} is right"),
        Some(advised) => format!("{advised} would be cheaper: pando layout DIR TABLE {advised}"),
    }
}

fn nanoseconds(ns: f64) -> String {
    if ns < 10_000.0 { format!("{ns:.0} ns") } else { format!("{:.0} us", ns / 1e3) }
}

fn rows(advice: &[Advice], format: Format) -> io::Result<()> {
    let columns = [
        "table",
        "layout",
        "advised",
        "records",
        "record_bytes",
        "runs",
        "get_pages",
        "space_amplification",
        "btree_get_ns",
        "btree_write_ns",
        "btree_write_amplification",
        "lsm_get_ns",
        "lsm_write_ns",
        "lsm_write_amplification",
        "even_gets_per_write",
        "switch_bytes",
        "switch_seconds",
    ];
    let mut rows = Rows::new(output::stdout(), format, &columns)?;
    for of in advice {
        let advised = of.advised.map_or(Cell::Null, |advised| Cell::Bytes(advised.name().as_bytes()));
        let cells = [
            Cell::Bytes(of.table.as_bytes()),
            Cell::Bytes(of.layout.name().as_bytes()),
            advised,
            Cell::Number(of.records),
            Cell::Number(of.record_bytes),
            Cell::Number(of.runs),
            Cell::Number(of.get_pages),
            Cell::Real(of.space_amplification),
            Cell::Real(of.btree.get_ns),
            Cell::Real(of.btree.write_ns),
            Cell::Real(of.btree.write_amplification),
            Cell::Real(of.lsm.get_ns),
            Cell::Real(of.lsm.write_ns),
            Cell::Real(of.lsm.write_amplification),
            of.even_gets_per_write.map_or(Cell::Null, Cell::Real),
            Cell::Number(of.switch_bytes),
            Cell::Real(of.switch_seconds),
        ];
        rows.row(&cells)?;
    }
    rows.finish().map(drop)
}
