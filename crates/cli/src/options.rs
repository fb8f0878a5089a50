//! `options`: prints the value of each option, and what set it.

use crate::failure::{Failure, Outcome};
use crate::open::MemoryArgs;
use crate::output::{self, Cell, Format, FormatArgs, Rows};
use crate::remote::Remote;
use crate::text;
use clap::Args;
use pando::options::Setting;
use serde_json::Value;
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct OptionsArgs {
    /// The directory of the database, or its address on a server (http://HOST:PORT/DATABASE) [default: none; prints
    /// the settings that a new database would have on this machine]
    dir: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Page size of the database: 4K, 8K, 16K, 32K or 64K [default: of an existing database, its own; of a new one,
    /// 16K]
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size)]
    page_size: Option<usize>,
    #[command(flatten)]
    format: FormatArgs,
}

/// An option as it is printed.
struct Shown {
    name: String,
    group: String,
    value: String,
    unit: String,
    default: String,
    range: String,
    origin: String,
    cost: String,
}

/// Runs `pando options`.
pub fn run(args: &OptionsArgs) -> Outcome {
    let remote = args.dir.as_deref().map(Remote::find).transpose()?.flatten();
    let shown = match remote {
        Some(remote) => of_server(&remote, args)?,
        None => of_directory(args)?,
    };
    let write = match args.format.format() {
        Format::Table => write_for_people(&shown),
        format => write_rows(&shown, format),
    };
    write.map_err(Failure::stdout)
}

fn of_directory(args: &OptionsArgs) -> Outcome<Vec<Shown>> {
    let mut builder = args.memory.builder();
    if let Some(bytes) = args.page_size {
        builder = builder.page_bytes(bytes);
    }
    let db = match &args.dir {
        Some(dir) => Some(builder.clone().read_only(true).open(dir)?),
        None => None,
    };
    let shown = |Setting { spec, value, origin, .. }: &Setting| Shown {
        name: spec.name.to_owned(),
        group: spec.group.to_string(),
        value: value.to_string(),
        unit: spec.unit.to_string(),
        default: spec.default.to_owned(),
        range: spec.range_text(),
        origin: origin.to_string(),
        cost: spec.cost.to_owned(),
    };
    Ok(builder.settings(db.as_ref())?.iter().map(shown).collect())
}

/// Returns the options of a database that a server has open, with the values that the server has set.
fn of_server(remote: &Remote, args: &OptionsArgs) -> Outcome<Vec<Shown>> {
    if args.memory.memory.is_some() || args.page_size.is_some() {
        let message = "--memory and --page-size apply only to a directory: the options of a server's \
                       databases are already set";
        return Err(Failure::Usage(message.to_owned()));
    }
    let answer = remote.ask_json("GET", "/options")?;
    let listed = answer.get("options").and_then(Value::as_array);
    let shown = |option: &Value| {
        let word = |name: &str| option[name].as_str().unwrap_or_default().to_owned();
        Shown {
            name: word("name"),
            group: word("group"),
            value: word("value"),
            unit: word("unit"),
            default: word("default"),
            range: word("range"),
            origin: word("origin"),
            cost: word("cost"),
        }
    };
    Ok(listed.into_iter().flatten().map(shown).collect())
}

/// Prints the options by group, with the cost of a wrong value below each.
fn write_for_people(options: &[Shown]) -> io::Result<()> {
    let mut out = output::stdout();
    let name_width = options.iter().map(|option| option.name.len()).max().unwrap_or(0);
    let value_width = options.iter().map(|option| option.for_people().len()).max().unwrap_or(0);
    let mut group = None;
    for option in options {
        if group != Some(&option.group) {
            let gap = if group.is_some() { "\n" } else { "" };
            writeln!(out, "{gap}{}", option.group)?;
            group = Some(&option.group);
        }
        let Shown { name, default, range, origin, cost, .. } = option;
        writeln!(out, "  {name:name_width$}  {:value_width$}  {origin}", option.for_people())?;
        writeln!(out, "      default: {default}")?;
        writeln!(out, "      range: {range}")?;
        writeln!(out, "      {cost}")?;
    }
    out.flush()
}

impl Shown {
    fn number(&self) -> Option<u64> {
        self.value.parse().ok()
    }

    /// Returns a value with its unit: `16,384 bytes`.
    fn for_people(&self) -> String {
        match self.number() {
            Some(number) => format!("{} {}", text::count(number), self.unit),
            None => self.value.clone(),
        }
    }
}

fn write_rows(options: &[Shown], format: Format) -> io::Result<()> {
    let columns = ["option", "group", "value", "unit", "default", "range", "origin", "cost"];
    let mut rows = Rows::new(output::stdout(), format, &columns)?;
    for option in options {
        let Shown { name, group, value, unit, default, range, origin, cost } = option;
        let value = option.number().map_or(Cell::Bytes(value.as_bytes()), Cell::Number);
        let [name, group, unit, default, range, origin, cost] =
            [name, group, unit, default, range, origin, cost].map(|word| Cell::Bytes(word.as_bytes()));
        rows.row(&[name, group, value, unit, default, range, origin, cost])?;
    }
    rows.finish().map(drop)
}
