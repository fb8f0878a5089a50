//! `pando advise`: the recommended layout of each table, and the cost of switching.

use crate::failure::{Failure, Outcome};
use crate::open::Existing;
use crate::output::{self, Cell, Format, FormatArgs, Rows};
use crate::remote::Remote;
use crate::text;
use clap::Args;
use pando::{Advice, Costs, Operations};
use serde::Deserialize;
use std::io::{self, Write};

#[derive(Args, Debug)]
pub struct AdviseArgs {
    #[command(flatten)]
    database: Existing,
    /// Assume N look-ups in each table. Only the proportion of --reads, --scanned and --writes matters, but together
    /// they must be at least 1,000 operations. A directory keeps no counts, so give at least one of the three. A server
    /// uses what it has counted if you give none of them [default: 0 if you give another of the three]
    #[arg(long, value_name = "N")]
    reads: Option<u64>,
    /// Assume that cursors pass N records in each table [default: as for --reads]
    #[arg(long, value_name = "N")]
    scanned: Option<u64>,
    /// Assume N puts and deletes in each table [default: as for --reads]
    #[arg(long, value_name = "N")]
    writes: Option<u64>,
    #[command(flatten)]
    format: FormatArgs,
}

/// The advice for one table, from this process or from a server.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AdviceRow {
    /// The name of the table.
    pub table: String,
    /// The layout that it has.
    pub layout: String,
    /// The recommended layout; `None`: there were fewer than 1,000 operations.
    pub advised: Option<String>,
    /// The approximate number of its records.
    pub records: u64,
    /// The bytes of keys and values in its runs.
    pub record_bytes: u64,
    /// The number of its runs.
    pub runs: u64,
    /// The number of pages that a look-up reads.
    pub get_pages: u64,
    /// The bytes of its pages for each byte of records.
    pub space_amplification: f64,
    /// The costs as a B+tree.
    pub btree: CostRow,
    /// The costs as an LSM table.
    pub lsm: CostRow,
    /// The look-ups for each write at which both cost the same.
    pub even_gets_per_write: Option<f64>,
    /// The bytes that a switch to the other layout would write.
    pub switch_bytes: u64,
    /// The time that it would take, in seconds.
    pub switch_seconds: f64,
}

/// The costs of operations in one layout.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CostRow {
    get_ns: f64,
    move_ns: f64,
    write_ns: f64,
    write_amplification: f64,
}

/// The response of a server.
#[derive(Debug, Deserialize)]
struct Answer {
    tables: Vec<AdviceRow>,
}

impl From<&Advice> for AdviceRow {
    fn from(of: &Advice) -> Self {
        AdviceRow {
            table: of.table.clone(),
            layout: of.layout.to_string(),
            advised: of.advised.map(|advised| advised.to_string()),
            records: of.records,
            record_bytes: of.record_bytes,
            runs: of.runs,
            get_pages: of.get_pages,
            space_amplification: of.space_amplification,
            btree: of.btree.into(),
            lsm: of.lsm.into(),
            even_gets_per_write: of.even_gets_per_write,
            switch_bytes: of.switch_bytes,
            switch_seconds: of.switch_seconds,
        }
    }
}

impl From<Costs> for CostRow {
    fn from(of: Costs) -> Self {
        let Costs { get_ns, move_ns, write_ns, write_amplification, .. } = of;
        CostRow { get_ns, move_ns, write_ns, write_amplification }
    }
}

/// Runs `pando advise`.
pub fn run(args: &AdviseArgs) -> Outcome {
    let advice = match Remote::find(&args.database.dir)? {
        Some(remote) => ask(&remote, &assumed(args))?,
        None => {
            let db = args.database.open()?;
            let [gets, moves, writes] =
                [args.reads, args.scanned, args.writes].map(Option::unwrap_or_default);
            db.advise(Some(Operations { gets, moves, writes }))?.iter().map(AdviceRow::from).collect()
        }
    };
    let write = match args.format.format() {
        Format::Table => for_people(&advice),
        format => rows(&advice, format),
    };
    write.map_err(Failure::stdout)
}

/// Returns the operations that a server is to assume, as a query.
fn assumed(args: &AdviseArgs) -> String {
    let words = [("reads", args.reads), ("scanned", args.scanned), ("writes", args.writes)];
    let words = words.iter().filter_map(|(name, number)| Some(format!("{name}={}", (*number)?)));
    words.collect::<Vec<_>>().join("&")
}

/// Returns the advice of a server. With an empty query, it uses the operations that it has counted.
pub fn ask(remote: &Remote, query: &str) -> Outcome<Vec<AdviceRow>> {
    let answer = remote.ask_json("GET", &format!("/advise?{query}"))?;
    let answer: Answer = serde_json::from_value(answer.into())
        .map_err(|error| Failure::Failed(format!("cannot read the server's response: {error}")))?;
    Ok(answer.tables)
}

fn for_people(advice: &[AdviceRow]) -> io::Result<()> {
    let mut out = output::stdout();
    for of in advice {
        writeln!(out, "{}: {}", text::show(of.table.as_bytes()), verdict(of))?;
        let (records, bytes, runs) = (text::count(of.records), text::size(of.record_bytes), of.runs);
        let (layout, pages, space) = (&of.layout, of.get_pages, of.space_amplification);
        writeln!(
            out,
            "  {layout} now: {records} records, {bytes}, {runs} runs; {pages} pages a get, {space:.2}x space"
        )?;
        for (layout, costs) in [("btree", &of.btree), ("lsm", &of.lsm)] {
            writeln!(
                out,
                "  as {layout}: a get {}, a scanned record {}, a write {} (writes {:.1} times its bytes)",
                nanoseconds(costs.get_ns),
                nanoseconds(costs.move_ns),
                nanoseconds(costs.write_ns),
                costs.write_amplification
            )?;
        }
        match of.even_gets_per_write {
            Some(even) => writeln!(out, "  lsm is cheaper with fewer than {even:.1} gets for each write")?,
            None if of.btree.write_ns <= of.lsm.write_ns => {
                writeln!(out, "  btree is cheaper for writes as well")?
            }
            None => writeln!(out, "  lsm is cheaper for reads as well")?,
        }
        let (bytes, time) = (text::size(of.switch_bytes), text::seconds(of.switch_seconds));
        writeln!(out, "  a switch writes {bytes} and takes about {time}")?;
    }
    out.flush()
}

fn verdict(of: &AdviceRow) -> String {
    match &of.advised {
        None => "say how it is used, with --reads, --scanned or --writes: together at least 1,000 operations"
            .to_owned(),
        Some(advised) if *advised == of.layout => format!("{advised} is right"),
        Some(advised) => format!("{advised} would be cheaper: pando layout DIR TABLE {advised}"),
    }
}

fn nanoseconds(ns: f64) -> String {
    if ns < 10_000.0 { format!("{ns:.0} ns") } else { format!("{:.0} us", ns / 1e3) }
}

fn rows(advice: &[AdviceRow], format: Format) -> io::Result<()> {
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
        let advised = of.advised.as_ref().map_or(Cell::Null, |advised| Cell::Bytes(advised.as_bytes()));
        let cells = [
            Cell::Bytes(of.table.as_bytes()),
            Cell::Bytes(of.layout.as_bytes()),
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
