//! Running: each repetition of each engine in a process of its own, engines interleaved.
//!
//! The repetitions go round: every engine once, then every engine again, so that a slow minute of the machine falls on
//! all of them. A process has a new empty directory, which goes with it.

use crate::cgroup::Cgroup;
use crate::engine::{Config, Durability, Failure, Outcome};
use crate::measure::Row;
use crate::workloads::{Job, TableJob, Work, Workload};
use crate::{engines, report};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// What a run of one engine on one workload gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Its rows.
    Rows(Vec<Row>),
    /// The engine does not have what was asked for.
    Unsupported(String),
    /// It failed, answered wrongly, or took too long.
    Failed(String),
}

/// A run that was asked for, and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub engine: String,
    pub workload: String,
    pub durability: Durability,
    pub answer: Answer,
}

/// Everything of one invocation; what `report` reads.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    pub machine: report::Machine,
    pub scale: f64,
    pub repeat: usize,
    pub cache_bytes: usize,
    pub runs: Vec<Run>,
}

impl Results {
    /// The first run that failed.
    pub fn failure(&self) -> Option<String> {
        self.runs.iter().find_map(|run| match &run.answer {
            Answer::Failed(why) => {
                Some(format!("{} on {}, {}: {why}", run.engine, run.workload, run.durability))
            }
            Answer::Rows(_) | Answer::Unsupported(_) => None,
        })
    }

    /// Writes them to `path`, whole or not at all.
    fn save(&self, path: &Path) -> Outcome<()> {
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, serde_json::to_string_pretty(self)?)?;
        Ok(fs::rename(&unfinished, path)?)
    }
}

/// How to run.
pub struct Plan {
    pub engines: Vec<String>,
    pub workloads: Vec<&'static Workload>,
    pub repeat: usize,
    pub scale: f64,
    pub cache_bytes: usize,
    pub dir: Option<PathBuf>,
    /// A run that takes longer has no figures.
    pub limit: Duration,
    /// Where to keep the results, from the first on: a run of hours may be stopped.
    pub json: Option<PathBuf>,
}

impl Plan {
    /// All of it, with progress on a terminal.
    pub fn run(&self) -> Outcome<Results> {
        let cases: Vec<_> =
            self.workloads.iter().flat_map(|w| w.durabilities.iter().map(move |&d| (*w, d))).collect();
        let style =
            ProgressStyle::with_template("{pos}/{len} {wide_msg} {elapsed}").expect("the template is right");
        let of_case = |(workload, _): &(&Workload, Durability)| {
            self.engines.iter().filter(|engine| workload.is_for(engine)).count()
        };
        let count = cases.iter().map(of_case).sum::<usize>() * self.repeat;
        let bar = ProgressBar::new(count as u64).with_style(style);
        let Plan { scale, repeat, cache_bytes, .. } = *self;
        let mut results =
            Results { machine: report::Machine::here(), scale, repeat, cache_bytes, runs: Vec::new() };
        for (workload, durability) in cases {
            for _ in 0..self.repeat {
                for engine in self.engines.iter().filter(|engine| workload.is_for(engine)) {
                    bar.set_message(format!("{} {durability} {engine}", workload.name));
                    let no_figures = |run: &Run| {
                        run.engine == *engine
                            && run.workload == workload.name
                            && run.durability == durability
                            && !matches!(run.answer, Answer::Rows(_))
                    };
                    if !results.runs.iter().any(no_figures) {
                        let answer = self.child(engine, workload, durability)?;
                        let workload = workload.name.to_owned();
                        results.runs.push(Run { engine: engine.clone(), workload, durability, answer });
                        self.json.iter().try_for_each(|path| results.save(path))?;
                    }
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Ok(results)
    }

    /// Runs one repetition in a process of its own. Its directory is created here, so that it is also removed when the
    /// process is killed.
    fn child(&self, engine: &str, workload: &Workload, durability: Durability) -> Outcome<Answer> {
        let parent = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        fs::create_dir_all(&parent)?;
        let scratch = tempfile::Builder::new().prefix("rivals-").tempdir_in(parent)?;
        let cgroup = match workload.limit_bytes(self.scale).map(Cgroup::new).transpose() {
            Ok(cgroup) => cgroup,
            Err(error) => return Ok(Answer::Unsupported(error)),
        };
        let of_cgroup = cgroup.iter().flat_map(|cgroup| [OsStr::new("--cgroup"), cgroup.dir().as_os_str()]);
        let mut child = Command::new(std::env::current_exe()?)
            .args(["one", engine, workload.name, &durability.to_string()])
            .arg(scratch.path())
            .args(of_cgroup)
            .args(["--scale", &self.scale.to_string(), "--cache-mib", &(self.cache_bytes >> 20).to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // Read beside the child, so that it never waits for a full pipe.
        let out = child.stdout.take().map(|pipe| thread::spawn(|| std::io::read_to_string(pipe)));
        let err = child.stderr.take().map(|pipe| thread::spawn(|| std::io::read_to_string(pipe)));
        let read = |reader: Option<thread::JoinHandle<std::io::Result<String>>>| {
            reader.and_then(|reader| reader.join().ok()?.ok()).unwrap_or_default()
        };
        let began = Instant::now();
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if began.elapsed() > self.limit => {
                    child.kill()?;
                    child.wait()?;
                    return Ok(Answer::Failed(format!("not done after {} s", self.limit.as_secs())));
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let (out, err) = (read(out), read(err));
        if status.success() {
            return Ok(serde_json::from_str(&out)?);
        }
        if let Some(bytes) = cgroup.and_then(|cgroup| cgroup.exceeded()) {
            return Ok(Answer::Failed(format!("killed: it needed more than {} MiB", bytes >> 20)));
        }
        let last = err.lines().last().unwrap_or("no message");
        Ok(Answer::Failed(format!("{status}: {last}")))
    }
}

/// One engine on one workload, in this process. What the engine does not support is an answer; a failure is not.
pub fn one(
    engine: &str,
    workload: &Workload,
    durability: Durability,
    scale: f64,
    cache_bytes: usize,
    dir: &Path,
) -> Outcome<Answer> {
    let entry =
        engines::named(engine).ok_or_else(|| Failure::Wrong(format!("no engine is called {engine}")))?;
    let of_workload = workload.cache_bytes(scale);
    let cache_bytes = of_workload.unwrap_or(cache_bytes);
    let outgrows_caches = of_workload.is_some();
    let config = Config { dir: dir.to_owned(), durability, cache_bytes, outgrows_caches };
    let rows = match workload.run {
        Work::Bytes(run) => entry.open.map(|open| {
            let engine = open(&config)?;
            run(&Job { engine: &*engine, config: &config, scale })
        }),
        Work::Tables(run) => entry.open_tables.map(|open| {
            let base = open(&config)?;
            run(&TableJob { config: &config, scale }, &*base)
        }),
    };
    let mut rows = match rows {
        None => return Ok(Answer::Unsupported("it is not for this".into())),
        Some(Err(Failure::Unsupported(why))) => return Ok(Answer::Unsupported(why.into())),
        Some(rows) => rows?,
    };
    for row in &mut rows {
        row.engine = engine.into();
        row.durability = durability;
    }
    Ok(Answer::Rows(rows))
}
