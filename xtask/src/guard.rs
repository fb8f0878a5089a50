//! What an operation may cost: counted, not timed, so that it comes out the same on a loaded machine.
//!
//! 1. Build `pando-guard` as a user's default release build would be (`[profile.guard]`).
//! 2. Run it alone (it counts allocations, flushes and pages itself), three times, of which the least counts: what
//!    threads in the background do now and then, as going on in another segment of the log, only adds. Then under
//!    callgrind (instructions), and three times under strace (system calls of the calling thread, the least again).
//! 3. Hold each figure against `crates/bench/budgets.toml`. More than the budget fails; much less asks for a new
//!    budget. If a figure is over its budget, everything is counted again, at most twice: on a busy machine a thread in
//!    the background can be late, and the state that an operation finds is then another one.
//! 4. Budgets change together with CHANGELOG.md: `--update` writes them only if that has uncommitted changes, and a
//!    commit that changed one without the other fails.
//!
//! `--planted` proves that all this can fail: see `mutants/guard`. `--uncounted` says what the engine's own counters
//! cost a read.

use crate::counters;
use crate::mutants::{Copy, git};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const BUDGETS: &str = "crates/bench/budgets.toml";
/// Instructions differ a little from one system library to the next, and with where memory happens to lie.
const TOLERANCE: f64 = 0.03;
/// The same for operations on range deletes, `range_*`: the priorities of their treap are made of addresses, so that
/// its shape and the length of a descent differ from run to run.
const RANDOM_TOLERANCE: f64 = 0.12;
/// What is counted exactly differs by what happens now and then: a buffer grows, a thread is rung.
const SLACK: f64 = 0.02;

/// How often it runs alone, and under strace.
const ALONE: usize = 3;

/// How often everything is counted at most, while a figure is over its budget.
const COUNTS: usize = 3;

/// Figures by operation and name, for one repetition of the operation.
pub(crate) type Figures = BTreeMap<(String, String), f64>;

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Options {
    /// Hold the figures against the budgets.
    #[default]
    Judge,
    /// Write the budgets anew.
    Update,
    /// Prove that each planted regression is caught.
    Planted,
    /// Say what the engine's counters cost a read.
    Uncounted,
}

impl Options {
    /// Reads the command line behind `guard`; an error is what is wrong with it.
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        match arguments {
            [] => Ok(Options::Judge),
            [only] if only == "--update" => Ok(Options::Update),
            [only] if only == "--planted" => Ok(Options::Planted),
            [only] if only == "--uncounted" => Ok(Options::Uncounted),
            _ => Err("guard knows --update, --planted and --uncounted".into()),
        }
    }
}

/// Counts, and compares with the budgets of the tree at `root`. Answers whether every figure is within its budget, or
/// every planted regression was caught, or no read pays too much for being counted.
pub fn run(root: &Path, options: Options, out: &mut dyn Write) -> io::Result<bool> {
    match options {
        Options::Planted => return planted(root, out),
        Options::Uncounted => return counters::run(root, out),
        Options::Judge | Options::Update => {}
    }
    let updates = options == Options::Update;
    if updates && git(root, &["diff", "HEAD", "--name-only", "--", "CHANGELOG.md"])?.is_empty() {
        return Err(io::Error::other("say in CHANGELOG.md what changes for users, then update the budgets"));
    }
    let mut figures = count(root, &target(root))?;
    if updates {
        fs::write(root.join(BUDGETS), written(&figures))?;
        writeln!(out, "wrote {BUDGETS}")?;
        return Ok(true);
    }
    let budgets = read(&fs::read_to_string(root.join(BUDGETS))?).map_err(io::Error::other)?;
    for _ in 1..COUNTS {
        if judge(&budgets, &figures, &mut io::sink())? == 0 {
            break;
        }
        take_less(&mut figures, count(root, &target(root))?);
    }
    let over = judge(&budgets, &figures, out)?;
    let alone = changed_alone(root)?;
    if alone {
        writeln!(out, "the last commit that changed {BUDGETS} says nothing in CHANGELOG.md")?;
    }
    writeln!(out, "guard: {} figures, {over} over budget", figures.len())?;
    Ok(over == 0 && !alone)
}

/// Takes each figure of another count that is less.
fn take_less(figures: &mut Figures, other: Figures) {
    for (key, figure) in other {
        figures.entry(key).and_modify(|known| *known = known.min(figure)).or_insert(figure);
    }
}

/// Whether the last commit that changed the budgets left CHANGELOG.md as it was. Without history nothing is known.
fn changed_alone(root: &Path) -> io::Result<bool> {
    let last = git(root, &["log", "-1", "--format=%H", "--", BUDGETS])?;
    if last.is_empty() || git(root, &["rev-parse", "--verify", "--quiet", &format!("{last}^")]).is_err() {
        return Ok(false);
    }
    Ok(git(root, &["show", "--format=", "--name-only", &last, "--", "CHANGELOG.md"])?.is_empty())
}

/// Writes a line for each figure that is not where its budget is. Answers how many are over.
fn judge(budgets: &Figures, figures: &Figures, out: &mut dyn Write) -> io::Result<usize> {
    let mut over = 0;
    for ((op, name), &figure) in figures {
        let Some(&budget) = budgets.get(&(op.clone(), name.clone())) else {
            writeln!(out, "{op} {name}: {figure:.2}, over budget: it has none")?;
            over += 1;
            continue;
        };
        let room = match (&name[..], op.starts_with("range_")) {
            ("instructions", true) => budget * RANDOM_TOLERANCE,
            ("instructions", false) => budget * TOLERANCE,
            // So does how often the arena of the nodes grows.
            ("allocations", true) => 0.1,
            _ => SLACK,
        };
        if figure > budget + room {
            writeln!(out, "{op} {name}: {figure:.2}, over budget: {budget:.2}")?;
            over += 1;
        } else if name == "instructions" && figure < budget - 2.0 * room {
            writeln!(out, "{op} {name}: {figure:.2}, far below its budget of {budget:.2}: lower that")?;
        }
    }
    for (op, name) in budgets.keys().filter(|key| !figures.contains_key(*key)) {
        writeln!(out, "{op} {name}: over budget: not counted any more")?;
        over += 1;
    }
    Ok(over)
}

/// Where the tree at `root` is built.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into)
}

/// Steps 1 and 2, built in `target`.
pub(crate) fn count(root: &Path, target: &Path) -> io::Result<Figures> {
    let scratch = target.join("guard-runs");
    fs::create_dir_all(&scratch)?;
    let build =
        ["build", "--quiet", "--profile", "guard", "--package", "pando-db-bench", "--bin", "pando-guard"];
    checked(Command::new("cargo").args(build).current_dir(root).env("CARGO_TARGET_DIR", target))?;
    let guard = target.join("guard").join("pando-guard");
    let guard = guard.to_string_lossy();

    let runs = (0..ALONE).map(|_| sums(&checked(&mut Command::new(&*guard))?));
    let counted = least(&runs.collect::<io::Result<Vec<_>>>()?)?;
    let profile = scratch.join("callgrind.out");
    let to = format!("--callgrind-out-file={}", profile.display());
    let plain = ["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", &to];
    checked(Command::new("valgrind").args(plain).arg(&*guard))?;
    let profile = fs::read_to_string(profile)?;
    let calls = least_calls(&guard, &scratch.join("strace.out"))?;
    let mut ops: Vec<&str> = counted.iter().map(|(op, _, _)| &op[..]).collect();
    ops.dedup();
    if calls.len() != ops.len() {
        return Err(io::Error::other(format!("strace shows {} operations of {}", calls.len(), ops.len())));
    }

    let mut figures = Figures::new();
    for (op, calls) in ops.into_iter().zip(calls) {
        let sums: Vec<_> = counted.iter().filter(|(of, _, _)| of == op).collect();
        let times =
            sums.iter().find(|(_, name, _)| name == "times").map_or(1, |&&(_, _, times)| times) as f64;
        let mut note = |name: &str, sum: u64| figures.insert((op.into(), name.into()), sum as f64 / times);
        note("instructions", instructions(&profile, op));
        note("system_calls", calls);
        for (_, name, sum) in sums.iter().filter(|(_, name, _)| name != "times") {
            note(name, *sum);
        }
    }
    Ok(figures)
}

/// The system calls of each operation: the least of [`ALONE`] runs, as a segment of the log may end in any of them.
fn least_calls(guard: &str, trace: &Path) -> io::Result<Vec<u64>> {
    let mut least: Vec<u64> = Vec::new();
    for _ in 0..ALONE {
        checked(Command::new("strace").arg("-o").arg(trace).arg(guard))?;
        let calls = system_calls(&fs::read_to_string(trace)?);
        if least.is_empty() {
            least = calls;
        } else if least.len() == calls.len() {
            least.iter_mut().zip(calls).for_each(|(least, calls)| *least = calls.min(*least));
        } else {
            return Err(io::Error::other("two runs under strace counted different operations"));
        }
    }
    Ok(least)
}

/// What a run printed: operation, name and sum, in their order.
type Sums = Vec<(String, String, u64)>;

fn sums(printed: &str) -> io::Result<Sums> {
    let sum_of = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [op, name, sum] => Ok((op.to_owned(), name.to_owned(), sum.parse().map_err(io::Error::other)?)),
        _ => Err(io::Error::other(format!("pando-guard printed `{line}`"))),
    };
    printed.lines().map(sum_of).collect()
}

/// The least of each sum, of runs that counted the same.
fn least(runs: &[Sums]) -> io::Result<Sums> {
    let names = |run: &Sums| run.iter().map(|(op, name, _)| (op.clone(), name.clone())).collect::<Vec<_>>();
    let mut least = runs[0].clone();
    for run in &runs[1..] {
        if names(run) != names(&least) {
            return Err(io::Error::other("two runs of pando-guard counted different things"));
        }
        for (known, (_, _, sum)) in least.iter_mut().zip(run) {
            known.2 = known.2.min(*sum);
        }
    }
    Ok(least)
}

/// Runs `command`; answers what it printed.
fn checked(command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| io::Error::other(format!("cannot run {program}: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{program} failed: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the instructions of the function `NAME` in the module `ops` and of all that it called. In callgrind's
/// format, there is a line for each source line under `fn=`, its cost last, and after each `calls=` line the cost of
/// the call.
fn instructions(profile: &str, name: &str) -> u64 {
    let is_it = |function: &str| {
        let plain = function.split(['<', '\'']).next().unwrap_or(function);
        plain.ends_with(&format!("::{name}")) && plain.contains("ops::")
    };
    let (mut inside, mut sum) = (false, 0);
    for line in profile.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            inside = is_it(function);
        } else if inside && line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost = line.rsplit(' ').next().and_then(|cost| cost.parse::<u64>().ok());
            sum += cost.unwrap_or(0);
        }
    }
    sum
}

/// How many calls lie between the first `getppid` and the second, the third and the fourth, and so on; but for those
/// that depend on what other threads do just then.
fn system_calls(trace: &str) -> Vec<u64> {
    const CHANCE: [&str; 4] = ["futex(", "sched_yield(", "clock_nanosleep(", "---"];
    let mut counts = Vec::new();
    let mut counting = None;
    for line in trace.lines() {
        if line.starts_with("getppid(") {
            match counting.take() {
                None => counting = Some(0),
                Some(count) => counts.push(count),
            }
        } else if let Some(count) = &mut counting
            && !CHANCE.iter().any(|call| line.starts_with(call))
        {
            *count += 1;
        }
    }
    counts
}

/// The budgets file: a table for each operation, a line for each figure.
fn written(figures: &Figures) -> String {
    let mut text = String::from(
        "# What one operation may cost, counted by `cargo xtask guard`. Changed by `cargo xtask guard\n\
         # --update`, together with CHANGELOG.md.\n",
    );
    let mut table = "";
    for ((op, name), figure) in figures {
        if op != table {
            let _ = write!(text, "\n[{op}]\n");
            table = op;
        }
        let _ = writeln!(text, "{name} = {figure:.2}");
    }
    text
}

fn read(text: &str) -> Result<Figures, String> {
    let (mut figures, mut op) = (Figures::new(), String::new());
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut op);
            continue;
        }
        let (name, figure) = line.split_once(" = ").ok_or(format!("{BUDGETS}: `{line}` is no budget"))?;
        let figure = figure.parse().map_err(|_| format!("{BUDGETS}: `{figure}` is no number"))?;
        figures.insert((op.clone(), name.into()), figure);
    }
    Ok(figures)
}

/// Applies each patch of `mutants/guard` to a scratch copy; the guard there must say what is over its budget.
fn planted(root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    let mut patches = Vec::new();
    for entry in fs::read_dir(root.join("mutants").join("guard"))? {
        patches.push(entry?.path());
    }
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    let copy = Copy::new(root)?;
    let guard = "cargo run --quiet --package xtask -- guard";
    let unbroken = copy.command(guard)?;
    if !unbroken.status.success() {
        out.write_all(&[unbroken.stdout, unbroken.stderr].concat())?;
        return Err(io::Error::other("the guard complains of unbroken code: mend that first"));
    }
    let mut all_caught = !patches.is_empty();
    for patch in patches {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        git(copy.tree(), &["apply", &patch.to_string_lossy()])?;
        let output = copy.command(guard);
        copy.restore()?;
        let output = output?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let over: Vec<&str> = said.lines().filter(|line| line.contains(", over budget: ")).collect();
        let caught = !output.status.success() && !over.is_empty();
        all_caught &= caught;
        writeln!(out, "{name}: {}", if caught { "caught" } else { "NOT CAUGHT" })?;
        for line in
            if caught { over.join("\n") } else { String::from_utf8_lossy(&output.stderr).into() }.lines()
        {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(all_caught)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_s_cost_is_its_caller_s_too() {
        let profile = "fl=a.rs\nfn=guard::ops::scan\n0 100\ncfn=next\ncalls=5 0\n0 900\nfi=b.rs\n7 11\n\n\
                       fn=guard::ops::scan_more\n0 5000\nfn=guard::ops::get'2\n3 8\n\
                       fn=guard::ops::sql::insert\n3 5\n";
        assert_eq!(instructions(profile, "scan"), 1011);
        assert_eq!(instructions(profile, "get"), 8);
        assert_eq!(instructions(profile, "insert"), 5);
        assert_eq!(instructions(profile, "absent"), 0);
    }

    #[test]
    fn of_several_runs_the_least_counts() {
        let runs = ["put log_bytes 169\nput flushes 1\n", "put log_bytes 168\nput flushes 2\n"];
        let runs: Vec<Sums> = runs.iter().map(|printed| sums(printed).unwrap()).collect();
        assert_eq!(least(&runs).unwrap(), sums("put log_bytes 168\nput flushes 1\n").unwrap());
        assert!(least(&[runs[0].clone(), sums("put flushes 1\n").unwrap()]).is_err());
        assert!(sums("put log_bytes").is_err() && sums("put log_bytes many").is_err());
    }

    #[test]
    fn calls_are_counted_between_marks() {
        let trace = "read(3)\ngetppid() = 1\nwrite(4)\nfutex(0x1)\nfdatasync(4)\ngetppid() = 1\nread(3)\n\
                     getppid() = 1\ngetppid() = 1\n";
        assert_eq!(system_calls(trace), [2, 0]);
    }

    #[test]
    fn more_than_a_budget_is_over_it() {
        let figures = |instructions: f64, calls: f64| {
            let key = |name: &str| ("get".to_string(), name.to_string());
            Figures::from([(key("instructions"), instructions), (key("system_calls"), calls)])
        };
        let budgets = figures(1000.0, 1.0);
        assert_eq!(read(&written(&budgets)).unwrap(), budgets);
        let mut said = Vec::new();
        let mut over = |figures: &Figures| judge(&budgets, figures, &mut said).unwrap();
        assert_eq!(over(&figures(1029.0, 1.01)), 0);
        assert_eq!(over(&figures(1031.0, 1.0)), 1);
        assert_eq!(over(&figures(900.0, 2.0)), 1);
        assert_eq!(over(&Figures::new()), 2, "what is not counted is not guarded");
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("get instructions: 900.00, far below its budget of 1000.00"), "{said}");
        let mut counted = figures(1031.0, 1.0);
        take_less(&mut counted, figures(1000.0, 2.0));
        assert_eq!(counted, budgets, "each figure is the least of all counts");
    }
}
