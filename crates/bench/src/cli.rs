//! The flags, and the loop over workloads. Both `pando bench` and `pando-bench` use it.

use crate::compare::compare;
use crate::page;
use crate::quick;
use crate::report::{Row, Setting, table};
use crate::results::Results;
use crate::settings::Settings;
use crate::workloads::{self, Workload};
use crate::{Failure, Outcome};
use profile::Recording;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What to run, and how to print it.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Compare or draw results that were saved
    #[command(subcommand)]
    pub kept: Option<Saved>,
    /// The workloads to run; --list prints their names
    #[arg(value_name = "WORKLOAD", required_unless_present = "list")]
    pub workloads: Vec<String>,
    /// Print the names of the workloads, one on each line, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Print one JSON object for each row instead of a table; save it for `compare` and `report`
    #[arg(long)]
    pub json: bool,
    /// Run everything this many times, each time from an empty database; use 5 for a comparison
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Profile each workload as well: cpu, alloc or lock; `report` draws the profiles. Cannot be combined with `pando
    /// profile`
    #[arg(long, value_name = "KIND", requires = "json")]
    pub profile: Option<profile::Kind>,
    /// How the workloads run.
    #[command(flatten)]
    pub settings: Settings,
}

/// What to do with saved rows of `--json`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Saved {
    /// Compare two saved results and print what became better or worse beyond noise; exits with 1 if anything became
    /// worse
    Compare {
        /// The older results: output of --json, best with --repeat 5
        old: PathBuf,
        /// The newer results, of the same workloads
        new: PathBuf,
        /// Ignore changes smaller than this, in percent
        #[arg(long, default_value_t = 5.0)]
        threshold: f64,
        /// Print one JSON object for each figure instead of a table of changes
        #[arg(long)]
        json: bool,
    },
    /// Write saved results as one self-contained HTML page with plots
    Report {
        /// Files with output of --json [default: runs a quick suite of about two minutes and saves its rows beside
        /// the page]
        files: Vec<PathBuf>,
        /// Write the page to this file
        #[arg(short, long, default_value = "bench.html")]
        out: PathBuf,
    },
}

/// Runs the workloads that `args` names and prints the rows to stdout. Exits with 0 if every result was right, 1 if one
/// was wrong or something failed, and 2 if the flags are invalid.
pub fn run(args: &Args) -> ExitCode {
    let out = &mut io::stdout();
    let done = match &args.kept {
        Some(kept) => kept.run(out),
        None => run_all(args, out).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        // The reader of standard output has closed it.
        Err(Failure::Host(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(1)
        }
    }
}

impl Saved {
    /// Runs the command and returns whether no figure got worse.
    fn run(&self, out: &mut dyn Write) -> Outcome<bool> {
        match self {
            Saved::Compare { old, new, threshold, json } => {
                let comparison = compare(&Results::read(old)?, &Results::read(new)?, threshold / 100.0);
                out.write_all(if *json { comparison.json() } else { comparison.text() }.as_bytes())?;
                Ok(!comparison.is_worse())
            }
            Saved::Report { files, out: path } => {
                let mut results = Results::default();
                for file in files {
                    results.join(Results::read(file)?);
                }
                if files.is_empty() {
                    let rows = path.with_extension("json");
                    quick::run(&mut fs::File::create(&rows)?)?;
                    results = Results::read(&rows)?;
                    writeln!(out, "{}", rows.display())?;
                }
                fs::write(path, page::html(&results))?;
                writeln!(out, "{}", path.display())?;
                Ok(true)
            }
        }
    }
}

/// Runs the workloads that `args` name.
pub(crate) fn run_all(args: &Args, out: &mut dyn Write) -> Outcome<()> {
    if args.list {
        for workload in workloads::ALL {
            writeln!(out, "{}", workload.name)?;
        }
        return Ok(());
    }
    let chosen: Vec<&Workload> =
        args.workloads.iter().map(|name| workloads::named(name)).collect::<Outcome<_>>()?;
    for workload in chosen {
        let mut rows = Vec::new();
        for repetition in 1..=args.repeat {
            let fresh = profiled(workload, args)?;
            let numbered = |row: Row| match args.repeat {
                1 => row,
                _ => row.with("repetition", u64::from(repetition)),
            };
            rows.extend(fresh.into_iter().map(numbered));
        }
        let setting = Setting { settings: args.settings.describe(), ..Setting::here() };
        print(&rows, args.json.then_some(&setting), out)?;
    }
    Ok(())
}

/// Runs a workload and returns its rows, the first with its profile if one is wanted.
fn profiled(workload: &Workload, args: &Args) -> Outcome<Vec<Row>> {
    let Some(kind) = args.profile else { return (workload.run)(&args.settings) };
    let recording = Recording::start(kind).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut rows = (workload.run)(&args.settings)?;
    let profile = recording.stop();
    if let Some(first) = rows.first_mut() {
        first.profile = Some((kind, profile.folded()));
    }
    Ok(rows)
}

fn print(rows: &[Row], json: Option<&Setting>, out: &mut dyn Write) -> io::Result<()> {
    if let Some(setting) = json {
        rows.iter().try_for_each(|row| writeln!(out, "{}", row.json(setting)))?;
    } else {
        writeln!(out, "{}", table(rows))?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_rows_are_compared_and_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let keep = |name: &str, ns: u32| {
            let path = dir.path().join(name);
            let head = r#""workload":"scan","case":"all","durability":"none","threads":1"#;
            fs::write(&path, format!("{{{head},\"ns_per_op\":{ns}}}\n")).unwrap();
            path
        };
        let (old, new, page) = (keep("old", 100), keep("new", 120), dir.path().join("page.html"));
        let mut out = Vec::new();
        let mut compared = |old: &PathBuf, new: &PathBuf| {
            let (old, new) = (old.clone(), new.clone());
            Saved::Compare { old, new, threshold: 5.0, json: false }.run(&mut out).unwrap()
        };
        assert!(!compared(&old, &new), "slower is worse");
        assert!(compared(&new, &old) && compared(&old, &old));
        let files = vec![old, new];
        assert!(Saved::Report { files, out: page.clone() }.run(&mut out).unwrap());
        assert!(fs::read_to_string(page).unwrap().contains("110 ns"), "the median of both files");
    }
}
