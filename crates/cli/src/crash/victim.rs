//! The parent's handle of a child that writes until it is killed.

use super::workload::{Marks, WRITERS};
use super::writer::Tuning;
use crate::failure::{Failure, Outcome};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running child. It is killed when this is dropped, so that it does not outlive a failed parent.
pub struct Victim {
    child: Child,
    acknowledged: Arc<AtomicU64>,
    reader: Option<JoinHandle<Result<Heard, String>>>,
}

/// The commits that a child acknowledged before it died.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// The last commit of each writer.
    pub marks: Marks,
    pub commits: u64,
}

impl Victim {
    /// Starts a child on the database in `dir`.
    pub fn start(dir: &Path, tuning: Tuning) -> Outcome<Self> {
        let refused = |cause| Failure::system("start a child of this program", cause);
        let program = std::env::current_exe().map_err(refused)?;
        let mut command = Command::new(program);
        command.args(tuning.arguments(dir)).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(refused)?;
        let stdout = child.stdout.take().expect("it is piped");
        let acknowledged = Arc::new(AtomicU64::new(0));
        let tally = Arc::clone(&acknowledged);
        let reader = thread::spawn(move || listen(stdout, &tally));
        Ok(Victim { child, acknowledged, reader: Some(reader) })
    }

    /// Waits until the child has acknowledged `commits` commits, for at most `patience`, while the child lives.
    pub fn wait_for(&self, commits: u64, patience: Duration) {
        let begun = Instant::now();
        let lives = || self.reader.as_ref().is_some_and(|reader| !reader.is_finished());
        while self.acknowledged.load(Ordering::SeqCst) < commits && lives() && begun.elapsed() < patience {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the child with SIGKILL and returns what it had acknowledged before.
    pub fn kill(mut self) -> Outcome<Heard> {
        let refused = |cause| Failure::system("kill the child", cause);
        self.child.kill().map_err(refused)?;
        let status = self.child.wait().map_err(refused)?;
        let reader = self.reader.take().expect("it is taken once, here");
        let heard = reader.join().expect("the listener does not panic").map_err(Failure::Failed)?;
        const SIGKILL: i32 = 9;
        if status.signal() != Some(SIGKILL) {
            return Err(Failure::Failed(format!(
                "the child ended by itself, with {status}, before it was killed"
            )));
        }
        Ok(heard)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Both calls fail only if the child has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads acknowledgements until the child is dead. They stay in the pipe when it dies.
fn listen(stdout: ChildStdout, tally: &AtomicU64) -> Result<Heard, String> {
    let mut heard = Heard::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|cause| format!("cannot read from the child: {cause}"))?;
        let mut numbers = line.split(' ').map(str::parse::<u64>);
        let (Some(Ok(writer)), Some(Ok(commit)), None) = (numbers.next(), numbers.next(), numbers.next())
        else {
            return Err(format!("the child printed an unexpected line: {line:?}"));
        };
        let mark =
            heard.marks.get_mut(writer as usize).ok_or(format!("there are {WRITERS} writers: {line:?}"))?;
        *mark = commit;
        heard.commits += 1;
        tally.store(heard.commits, Ordering::SeqCst);
    }
    Ok(heard)
}
