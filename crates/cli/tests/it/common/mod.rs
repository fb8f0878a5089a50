//! Runs the command as a user would.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs `pando` with these arguments and nothing on its standard input.
pub fn pando<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    pando_with(args, b"")
}

/// Runs `pando` with `input` on its standard input.
pub fn pando_with<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may be gone before it is written.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The standard output of a run that must succeed.
#[track_caller]
pub fn stdout(output: Output) -> Vec<u8> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    assert_eq!(stderr, "", "nothing is said beside the data");
    output.stdout
}

/// The standard output, as text, of a run that must succeed.
#[track_caller]
pub fn text(output: Output) -> String {
    String::from_utf8(stdout(output)).unwrap()
}

/// Asserts that a run failed with `code`, printed no data, and said why. Answers what it said.
#[track_caller]
pub fn failure(output: Output, code: i32) -> String {
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(output.stdout, b"");
    assert!(stderr.starts_with("error: "), "{stderr}");
    stderr
}
