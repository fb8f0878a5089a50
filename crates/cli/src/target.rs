//! Where an export is written: standard output, or a new file, which gets its name once it is complete.

use crate::failure::{Failure, Outcome};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The destination of an export. Without [`Target::finish`], a file is removed again.
pub enum Target {
    /// `-`
    Stdout(BufWriter<io::Stdout>),
    File(NewFile),
}

/// A file that has the suffix `.part` until it is complete.
pub struct NewFile {
    out: BufWriter<File>,
    part: PathBuf,
    path: PathBuf,
}

impl Target {
    /// Begins to write to `path`, which must not exist, or for `-` to standard output.
    pub fn create(path: &Path) -> Outcome<Target> {
        if is_stdout(path) {
            return Ok(Target::Stdout(BufWriter::with_capacity(1 << 16, io::stdout())));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        if fs::symlink_metadata(path).is_ok() {
            let message = format!("{} exists already; name a file that does not exist", path.display());
            return Err(Failure::Usage(message));
        }
        let file = File::create_new(&part).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => Failure::Usage(format!(
                "{} exists already, perhaps from an export that was interrupted; remove it, or name another \
                 file",
                part.display()
            )),
            _ => refused(path)(cause),
        })?;
        Ok(Target::File(NewFile { out: BufWriter::new(file), part, path: path.to_owned() }))
    }

    /// Ends the export: what was written is complete.
    pub fn finish(self) -> Outcome {
        match self {
            Target::Stdout(mut out) => out.flush().map_err(Failure::stdout),
            Target::File(mut file) => file.complete().map_err(refused(&file.path)),
        }
    }
}

impl NewFile {
    /// Gives the file its name. The disk has its bytes before, so that after a power loss no file with this name is
    /// empty or cut off, and it has the name when this function returns.
    fn complete(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.part, &self.path)?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Stdout(out) => out.write(bytes),
            Target::File(file) => file.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Stdout(out) => out.flush(),
            Target::File(file) => file.out.flush(),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // A complete one has another name.
        let _ = fs::remove_file(&self.part);
    }
}

/// Returns whether a path stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the failure of writing to a path, or for `-` to standard output.
pub fn refused(path: &Path) -> impl Fn(io::Error) -> Failure + use<> {
    let what = (!is_stdout(path)).then(|| format!("write {}", path.display()));
    move |cause| match &what {
        Some(what) => Failure::system(what, cause),
        None => Failure::stdout(cause),
    }
}
