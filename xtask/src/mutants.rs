//! The protocol broken on purpose: proof that the checks can fail.
//!
//! A mutant is a patch, `mutants/NN-name.patch`, that breaks one rule of the engine. It is caught when the command
//! that should catch it fails and names a seed. The steps of a run:
//!
//! 1. Copy the tracked tree, uncommitted changes included, to a git worktree under `target/mutants/tree`.
//! 2. Run each command once on the unbroken copy: what fails there proves nothing later.
//! 3. For each mutant: apply the patch, run its command, undo the patch. The copies share one build directory, so
//!    that only what a patch touches is compiled again.
//! 4. Print the table. Anything but "caught" fails the run.
//!
//! A mutant that does not compile is not caught: its output names no seed.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// What catches a mutant whose patch names nothing else: the crash explorer, stopping at the first bad state.
pub const DEFAULT_COMMAND: &str =
    "cargo run --profile guard -q -p pando-sim -- explore --seeds 400 --stop-at-first";

/// How long a command may take. A mutant that hangs has no seed to show, so it is not caught.
const LIMIT_SECONDS: u32 = 900;
/// What `timeout` exits with when it had to stop the command.
const TIMED_OUT: i32 = 124;

/// What to run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Options {
    /// Print the mutants, run none.
    pub list: bool,
    /// Only the mutants of these names: `NN-name`, or the name alone. None: all.
    pub only: Vec<String>,
    /// Go on after a mutant that was not caught.
    pub keep_going: bool,
}

impl Options {
    /// Reads the command line behind `mutants`; an error is what is wrong with it.
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--list" => options.list = true,
                "--keep-going" => options.keep_going = true,
                "--only" => options.only.push(rest.next().ok_or("--only needs a name")?.clone()),
                other if other.starts_with('-') => return Err(format!("mutants knows no `{other}`")),
                name => options.only.push(name.to_string()),
            }
        }
        Ok(options)
    }
}

/// One patch and what its header says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mutant {
    /// The file's name without `.patch`.
    name: String,
    patch: PathBuf,
    breaks: String,
    caught_by: String,
}

impl Mutant {
    /// Reads the header: the lines before the diff.
    fn parse(name: &str, patch: &Path, text: &str) -> Result<Mutant, String> {
        let head: Vec<_> = text.lines().take_while(|line| line.starts_with('#') || line.is_empty()).collect();
        let field = |label: &str| head.iter().find_map(|line| line.strip_prefix(label)).map(str::trim);
        let breaks = field("# breaks:").filter(|text| !text.is_empty());
        Ok(Mutant {
            name: name.to_string(),
            patch: patch.to_path_buf(),
            breaks: breaks.ok_or(format!("{}: no `# breaks:` line", patch.display()))?.to_string(),
            caught_by: field("# caught-by:").unwrap_or(DEFAULT_COMMAND).to_string(),
        })
    }

    fn is_called(&self, wanted: &str) -> bool {
        self.name == wanted || self.name.split_once('-').is_some_and(|(_, name)| name == wanted)
    }
}

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// The command failed and named this seed.
    Caught(String),
    /// The command found nothing wrong.
    Survived,
    /// The command failed without naming a seed: a build error, or a check that cannot be repeated.
    NoSeed,
    /// The command did not end.
    Hung,
    /// The patch no longer fits the code.
    Stale,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Caught(seed) => write!(f, "{seed}"),
            Outcome::Survived => f.write_str("SURVIVED"),
            Outcome::NoSeed => f.write_str("NO SEED"),
            Outcome::Hung => f.write_str("HUNG"),
            Outcome::Stale => f.write_str("DOES NOT APPLY"),
        }
    }
}

/// Runs the mutants of the tree at `root` as `options` say, reporting to `out`. Answers whether every one was caught.
/// An error means that nothing can be said: a bad header, no git, or a command that fails on unbroken code.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let mutants = chosen(root, &options.only)?;
    if options.list {
        for mutant in &mutants {
            writeln!(out, "{}: {}\n    caught by: {}", mutant.name, mutant.breaks, mutant.caught_by)?;
        }
        return Ok(true);
    }
    let copy = Copy::new(root)?;
    copy.check_unbroken(&mutants, out)?;
    let mut rows = vec![["mutant", "breaks", "caught by", "seed", "seconds"].map(String::from)];
    let mut all_caught = true;
    for mutant in &mutants {
        let began = Instant::now();
        let outcome = copy.try_mutant(mutant, out)?;
        let seconds = format!("{:.1}", began.elapsed().as_secs_f64());
        writeln!(out, "{}: {outcome} ({seconds} s)", mutant.name)?;
        let texts = [&mutant.name, &mutant.breaks, &mutant.caught_by, &outcome.to_string(), &seconds];
        rows.push(texts.map(String::clone));
        all_caught &= matches!(outcome, Outcome::Caught(_));
        if !all_caught && !options.keep_going {
            break;
        }
    }
    writeln!(out, "\n{}", table(&rows))?;
    Ok(all_caught)
}

/// The mutants under `mutants/` that are called like one of `only`, or all of them, in order of name.
fn chosen(root: &Path, only: &[String]) -> io::Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for entry in fs::read_dir(root.join("mutants"))? {
        let patch = entry?.path();
        let file = patch.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(".patch") {
            mutants
                .push(Mutant::parse(name, &patch, &fs::read_to_string(&patch)?).map_err(io::Error::other)?);
        }
    }
    let nobody = only.iter().find(|wanted| !mutants.iter().any(|mutant| mutant.is_called(wanted)));
    if nobody.is_some() || mutants.is_empty() {
        let wanted = nobody.map_or("any name".to_string(), |name| format!("the name `{name}`"));
        return Err(io::Error::other(format!(
            "mutants/ holds no patch of {wanted}: nothing would be proved"
        )));
    }
    mutants.retain(|mutant| only.is_empty() || only.iter().any(|wanted| mutant.is_called(wanted)));
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

/// The scratch copy of the tree that the patches are applied to.
pub(crate) struct Copy {
    tree: PathBuf,
    build: PathBuf,
}

impl Copy {
    pub(crate) fn new(root: &Path) -> io::Result<Copy> {
        let scratch = root.join("target").join("mutants");
        fs::create_dir_all(&scratch)?;
        let copy = Copy { tree: scratch.join("tree"), build: scratch.join("build") };
        // A commit of the uncommitted changes that no branch holds; nothing if there are none.
        let nobody = ["-c", "user.name=mutants", "-c", "user.email=mutants@example.org"];
        let uncommitted = git(root, &[&nobody[..], &["stash", "create"]].concat())?;
        let commit = if uncommitted.is_empty() { git(root, &["rev-parse", "HEAD"])? } else { uncommitted };
        if copy.tree.join(".git").exists() {
            copy.restore()?;
            git(&copy.tree, &["checkout", "--quiet", "--force", "--detach", &commit])?;
        } else {
            git(root, &["worktree", "prune"])?;
            let tree = copy.tree.to_string_lossy();
            git(root, &["worktree", "add", "--quiet", "--force", "--detach", &tree, &commit])?;
        }
        Ok(copy)
    }

    /// Back to the commit. Git touches only the files that differ, so that builds stay incremental.
    pub(crate) fn restore(&self) -> io::Result<()> {
        git(&self.tree, &["checkout", "--quiet", "--force", "--", "."])?;
        git(&self.tree, &["clean", "-fdq"]).map(drop)
    }

    fn check_unbroken(&self, mutants: &[Mutant], out: &mut dyn Write) -> io::Result<()> {
        let mut commands: Vec<_> = mutants.iter().map(|mutant| mutant.caught_by.as_str()).collect();
        commands.sort_unstable();
        commands.dedup();
        for command in commands {
            writeln!(out, "unbroken: {command}")?;
            let output = self.command(command)?;
            if output.status.code() == Some(TIMED_OUT) {
                let message =
                    format!("`{command}` takes more than {LIMIT_SECONDS} s on unbroken code, here and now");
                return Err(io::Error::other(message));
            }
            if !output.status.success() {
                out.write_all(&output.stdout)?;
                out.write_all(&output.stderr)?;
                return Err(io::Error::other(format!("`{command}` fails on unbroken code: mend that first")));
            }
        }
        Ok(())
    }

    fn try_mutant(&self, mutant: &Mutant, out: &mut dyn Write) -> io::Result<Outcome> {
        if git(&self.tree, &["apply", &mutant.patch.to_string_lossy()]).is_err() {
            return Ok(Outcome::Stale);
        }
        let output = self.command(&mutant.caught_by);
        self.restore()?;
        let output = output?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Ok(match (output.status.code(), text.lines().find_map(seed_in)) {
            (Some(0), _) => Outcome::Survived,
            (Some(TIMED_OUT), _) => Outcome::Hung,
            (_, Some(seed)) => Outcome::Caught(seed),
            (_, None) => {
                writeln!(out, "{}: failed without a seed:\n{text}", mutant.name)?;
                Outcome::NoSeed
            }
        })
    }

    /// Where the copy is.
    pub(crate) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Where it is built.
    pub(crate) fn build(&self) -> &Path {
        &self.build
    }

    pub(crate) fn command(&self, command: &str) -> io::Result<Output> {
        Command::new("timeout")
            .args(["--kill-after=10", &LIMIT_SECONDS.to_string(), "sh", "-c", command])
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build)
            .output()
    }
}

/// The number behind the word "seed" in a line of output: `seed 7`, `seed: 0x2a`, `SEED=12`.
fn seed_in(line: &str) -> Option<String> {
    let lower = line.to_ascii_lowercase();
    let at = lower.match_indices("seed").find_map(|(at, word)| {
        let rest = &lower[at + word.len()..];
        let number = rest.trim_start_matches([' ', ':', '=']);
        number.starts_with(|c: char| c.is_ascii_digit()).then_some(lower.len() - number.len())
    })?;
    Some(lower[at..].chars().take_while(char::is_ascii_alphanumeric).collect())
}

/// Runs git in `dir`; answers what it printed, trimmed.
pub(crate) fn git(dir: &Path, arguments: &[&str]) -> io::Result<String> {
    // A hook's environment would point git at the hook's own repository.
    let mut command = Command::new("git");
    command.args(arguments).current_dir(dir).env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
    let output = command.output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(io::Error::other(format!("git {}: {message}", arguments.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Rows as a Markdown table, the first being the head.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text += &format!("| {} |\n", cells.join(" | "));
        if index == 0 {
            text += &format!("|{}\n", widths.map(|width| "-".repeat(width + 2) + "|").concat());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_demanded() {
        let text = "# breaks: the sync\n# caught-by: make check\n\ndiff --git a/a b/a\n# breaks: not this\n";
        let mutant = Mutant::parse("01-a", Path::new("01-a.patch"), text).unwrap();
        assert_eq!((mutant.breaks.as_str(), mutant.caught_by.as_str()), ("the sync", "make check"));
        assert!(mutant.is_called("a") && mutant.is_called("01-a") && !mutant.is_called("01"));
        let plain = Mutant::parse("01-a", Path::new("01-a.patch"), "# breaks: b\n").unwrap();
        assert_eq!(plain.caught_by, DEFAULT_COMMAND);
        assert!(Mutant::parse("01-a", Path::new("01-a.patch"), "diff --git a/a b/a\n").is_err());
    }

    #[test]
    fn a_seed_is_a_number_behind_the_word() {
        assert_eq!(seed_in("lost commit 4; repeat with --seed 17, image 3").as_deref(), Some("17"));
        assert_eq!(seed_in("SEED=0x2a").as_deref(), Some("0x2a"));
        assert_eq!(seed_in("seeded workloads; seed: 5").as_deref(), Some("5"));
        assert_eq!(seed_in("error: no seed was given"), None);
        assert_eq!(seed_in("400 seeds"), None);
    }

    #[test]
    fn the_command_line_is_read() {
        let parse = |text: &str| Options::parse(&text.split(' ').map(String::from).collect::<Vec<_>>());
        let only = vec!["03-torn-tail".to_string(), "lost-sync".to_string()];
        assert_eq!(
            parse("--only 03-torn-tail --keep-going lost-sync"),
            Ok(Options { list: false, only, keep_going: true })
        );
        assert!(parse("--only").is_err());
        assert!(parse("--all").is_err());
    }
}
