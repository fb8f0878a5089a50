//! What only the operating system's directory meets: directories that are moved, deleted and replaced while they are
//! open, lock files that are deleted, and mappings that the file system no longer serves.

use base::{ErrorKind, Result};
use pando_io::{Dir, File, OsDir};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.err().expect("a refusal").kind()
}

/// A directory `db` with a file `data`, in a temporary one.
fn database() -> Result<(tempfile::TempDir, PathBuf, OsDir, Arc<dyn File>)> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("db");
    let dir = OsDir::create(&path)?;
    let data = dir.create("data")?;
    Ok((home, path, dir, data))
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn a_directory_that_was_moved_keeps_its_files_and_another_in_its_place_is_not_touched() -> Result<()> {
    let (home, path, dir, data) = database()?;
    let aside = home.path().join("aside");
    fs::rename(&path, &aside).expect("moved");
    let moved = dir.check_in_place(&[&*data]).expect_err("it was moved");
    assert!(moved.kind() == ErrorKind::Io && moved.message().contains("moved or deleted"), "{moved}");
    let other = OsDir::create(&path)?;
    other.create("data")?.write_at(b"other", 0)?;
    other.create("stays")?;
    let replaced = dir.check_in_place(&[&*data]).expect_err("another is in its place");
    assert!(replaced.message().contains("another directory took the place"), "{replaced}");
    // Every call works in the directory that was opened.
    dir.create("log-1")?.write_at(b"one", 0)?;
    dir.rename("log-1", "log-2")?;
    assert_eq!(dir.list()?, ["data", "log-2"]);
    dir.open("log-2")?.sync()?;
    dir.sync()?;
    let held = dir.lock("lock")?;
    dir.remove("log-2")?;
    assert_eq!(names(&aside), ["data", "lock"]);
    assert_eq!(names(&path), ["data", "stays"]);
    assert_eq!(fs::read(path.join("data")).expect("a file"), b"other");
    drop(held);
    // Back in its place, it is itself again.
    fs::remove_dir_all(&path).expect("removed");
    fs::rename(&aside, &path).expect("moved back");
    dir.check_in_place(&[&*data])
}

#[test]
fn a_deleted_directory_takes_no_new_file() -> Result<()> {
    let (_home, path, dir, data) = database()?;
    fs::remove_dir_all(&path).expect("removed");
    assert_eq!(kind(dir.create("log-1")), ErrorKind::Io);
    assert_eq!(kind(dir.open("data")), ErrorKind::Io);
    assert_eq!(kind(dir.remove("data")), ErrorKind::Io);
    assert_eq!(kind(dir.lock("lock")), ErrorKind::Io);
    assert_eq!(kind(dir.lock_existing("data")), ErrorKind::Io);
    assert_eq!(kind(dir.check_in_place(&[&*data])), ErrorKind::Io);
    // A path that does not lead to a directory any more is as good as none.
    fs::write(&path, "a file").expect("written");
    assert_eq!(kind(dir.check_in_place(&[])), ErrorKind::Io);
    assert_eq!(kind(OsDir::open(path.join("deeper"))), ErrorKind::Io);
    assert_eq!(kind(OsDir::open(path.with_file_name("none"))), ErrorKind::Missing);
    Ok(())
}

/// A directory may have a file of another program by this name.
#[test]
fn a_lock_file_with_other_contents_is_not_overwritten() -> Result<()> {
    let (_home, path, dir, _data) = database()?;
    for theirs in ["mine", "12345678901", "123 "] {
        fs::write(path.join("lock"), theirs).expect("written");
        let refused = dir.lock("lock").expect_err("it is another program's");
        assert!(
            refused.kind() == ErrorKind::Foreign && refused.message().contains("lock is not"),
            "{refused}"
        );
        assert_eq!(fs::read(path.join("lock")).expect("read"), theirs.as_bytes());
    }
    for ours in [&b""[..], b"4194304", &[0; 7]] {
        fs::write(path.join("lock"), ours).expect("written");
        let held = dir.lock("lock")?;
        let refused = dir.lock("lock").expect_err("it is held");
        assert!(
            refused.message().contains("which is this one; use the database where it is open"),
            "{refused}"
        );
        drop(held);
    }
    Ok(())
}

/// Opening a pipe to read waits for a process that writes to it.
#[cfg(target_os = "linux")]
#[test]
fn a_pipe_that_has_the_name_of_the_lock_file_blocks_no_opener() -> Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::mpsc;

    let (_home, path, dir, _data) = database()?;
    // Not by a program: for a moment, a child has this process's open files, and its locks.
    mknodat(CWD, path.join("lock"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let results = [dir.lock_shared("lock"), dir.lock("lock"), dir.lock_existing("lock")];
        sender.send(results.map(|result| result.err().map(|error| (error.kind(), error.to_string()))))
    });
    let refused = receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("no opener waits");
    for refused in refused {
        let (kind, message) = refused.expect("a refusal");
        assert!(kind == ErrorKind::Foreign && message.contains("lock is not a regular file"), "{message}");
    }
    assert_eq!(names(&path), ["data", "lock"]);
    Ok(())
}

/// Such a file of another user is locked, so that it is known whether its owner is alive. (Root may write any file.)
#[test]
fn a_file_that_may_only_be_read_can_be_locked() -> Result<()> {
    let (_home, path, dir, _data) = database()?;
    fs::set_permissions(path.join("data"), fs::Permissions::from_mode(0o444)).expect("its mode");
    let held = dir.lock_existing("data")?;
    assert_eq!(kind(OsDir::open(&path)?.lock_existing("data")), ErrorKind::Locked);
    drop(held);
    dir.lock_existing("data").map(drop)
}

#[test]
fn a_deleted_lock_file_leaves_the_data_file_locked() -> Result<()> {
    let (_home, path, dir, _data) = database()?;
    let held = (dir.lock("lock")?, dir.lock_existing("data")?);
    fs::remove_file(path.join("lock")).expect("removed");
    let second = OsDir::open(&path)?;
    let new_lock = second.lock("lock")?;
    let refused = second.lock_existing("data").expect_err("the first one has it");
    assert_eq!(refused.kind(), ErrorKind::Locked);
    if cfg!(target_os = "linux") {
        assert!(refused.message().contains(&format!("process {}", std::process::id())), "{refused}");
    }
    drop(held);
    assert_eq!(names(&path), ["data", "lock"]);
    drop((new_lock, second.lock_existing("data")?));
    Ok(())
}

/// A mapping of a file that is cut behind its back: what a file system that was shut down does to every store after the
/// next flush.
#[test]
#[cfg(target_os = "linux")]
fn a_store_that_the_file_system_cannot_take_is_an_error() -> Result<()> {
    let (_home, path, dir, _data) = database()?;
    let file = dir.create("log-1")?;
    file.write_at(&vec![0; 1 << 20], 0)?;
    let Some(map) = file.map(1 << 20)? else { return Ok(()) };
    let other = dir.create("log-2")?;
    other.write_at(&[0; 8192], 0)?;
    let other_map = other.map(8192)?.expect("the first was mapped");
    map.write(100, b"before")?;
    fs::File::options().write(true).open(path.join("log-1")).expect("a file").set_len(4096).expect("cut");
    let broken = map.write(500_000, &[7; 10_000]).expect_err("there is no such page");
    assert!(broken.kind() == ErrorKind::Io && broken.message().contains("SIGBUS"), "{broken}");
    assert_eq!(kind(map.write(0, b"after")), ErrorKind::Io, "it stays broken");
    other_map.write(0, b"the other one is whole")?;
    drop(map);
    // Ranges are used again.
    let again = other.map(8192)?.expect("it still can be mapped");
    again.write(8000, b"aspen")
}

#[cfg(target_os = "linux")]
mod other_faults {
    //! Faults outside our mappings go where they went before: each in a process of its own, which they may end.

    use super::database;
    use base::Result;
    use pando_io::Dir;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    const CASE: &str = "PANDO_TEST_BUS";
    const OWN_EXIT: i32 = 42;

    extern "C" fn exits(_: libc::c_int) {
        std::process::exit(OWN_EXIT)
    }

    extern "C" fn exits_with_info(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the handler was installed with SA_SIGINFO.
        std::process::exit(if unsafe { (*info).si_code } > 0 { OWN_EXIT } else { 1 })
    }

    fn install(handler: usize, flags: libc::c_int) {
        // SAFETY: all zeros is a valid `sigaction`; the handlers above have the form that `flags` says.
        let done = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            (action.sa_sigaction, action.sa_flags) = (handler, flags);
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut())
        };
        assert_eq!(done, 0);
    }

    /// A store to a page of somebody else's mapping that its file does not have.
    fn fault() {
        use std::os::fd::AsRawFd;
        let file = tempfile::tempfile().expect("a temporary file");
        // SAFETY: a mapping of its own, to which nothing else refers; the store faults, which is what it is for.
        unsafe {
            let (all, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let at = libc::mmap(std::ptr::null_mut(), 4096, all, shared, file.as_raw_fd(), 0);
            assert_ne!(at, libc::MAP_FAILED);
            at.cast::<u8>().write_volatile(1);
        }
    }

    fn run(case: &str) -> ExitStatus {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program);
        child.args(["--exact", "os::other_faults::in_a_process_of_its_own", "--nocapture"]).env(CASE, case);
        child.status().expect("another process")
    }

    /// Run by the test below.
    #[test]
    fn in_a_process_of_its_own() -> Result<()> {
        let Ok(case) = std::env::var(CASE) else { return Ok(()) };
        match case.as_str() {
            "plain" => install(exits as *const () as usize, 0),
            "info" => install(exits_with_info as *const () as usize, libc::SA_SIGINFO),
            "ignored" => install(libc::SIG_IGN, 0),
            "sent" => install(libc::SIG_DFL, 0),
            _ => {}
        }
        let (_home, _path, dir, _data) = database()?;
        let file = dir.create("log-1")?;
        file.write_at(&[0; 4096], 0)?;
        let map = file.map(4096)?;
        if case == "replaced" {
            install(exits as *const () as usize, 0);
            let later = file.map(4096)?;
            std::process::exit(if later.is_none() { OWN_EXIT } else { 1 });
        }
        if case == "sent" {
            // SAFETY: a plain call.
            unsafe { libc::raise(libc::SIGBUS) };
            return Ok(());
        }
        if let Some(map) = map {
            map.write(0, b"aspen")?;
        }
        fault();
        Ok(())
    }

    #[test]
    fn go_where_they_went_before() -> Result<()> {
        let (_home, _path, dir, _data) = database()?;
        let file = dir.create("log-1")?;
        file.write_at(&[0; 4096], 0)?;
        if file.map(4096)?.is_none() {
            return Ok(()); // on this file system nothing is mapped, and no handler is installed
        }
        for case in ["plain", "info", "replaced"] {
            assert_eq!(run(case).code(), Some(OWN_EXIT), "{case}");
        }
        for case in ["default", "ignored", "sent"] {
            assert_eq!(run(case).signal(), Some(libc::SIGBUS), "{case}");
        }
        Ok(())
    }
}
