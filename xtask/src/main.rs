//! `cargo xtask tidy`, `cargo xtask mutants` and `cargo xtask guard`.

use std::path::Path;
use std::process::ExitCode;
use xtask::{guard, mutants, tidy};

const USAGE: &str = "usage: cargo xtask <check>

  tidy                                    check the tree's form; exits 1 if anything is wrong
  mutants [NAME...] [--list]              apply each patch of mutants/ to a scratch copy and prove that it is
          [--keep-going]                  caught; stops at the first that is not, unless told to keep going
  guard   [--update | --planted |         count what operations cost, and hold it against the budgets; write these
          --uncounted]                    anew; prove that planted regressions are caught; say what the engine's
                                          counters cost a read, which may be 2%
";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (check, rest) = match arguments.split_first() {
        Some((check, rest)) => (check.as_str(), rest),
        None => ("", arguments.as_slice()),
    };
    let good = match check {
        "tidy" if rest.is_empty() => run_tidy(root),
        "mutants" => match mutants::Options::parse(rest) {
            Ok(options) => mutants::run(root, &options, &mut std::io::stdout()).map_err(|e| e.to_string()),
            Err(message) => return usage(&message),
        },
        "guard" => match guard::Options::parse(rest) {
            Ok(options) => guard::run(root, options, &mut std::io::stdout()).map_err(|e| e.to_string()),
            Err(message) => return usage(&message),
        },
        _ => return usage("no such check"),
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(1)
        }
    }
}

fn usage(message: &str) -> ExitCode {
    eprint!("xtask: {message}\n{USAGE}");
    ExitCode::from(2)
}

fn run_tidy(root: &Path) -> Result<bool, String> {
    let findings = tidy::check(root).map_err(|error| error.to_string())?;
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {errors} errors, {} warnings", findings.len() - errors);
    Ok(errors == 0)
}
