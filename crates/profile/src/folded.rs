//! A finished profile: stacks with function names, as folded text, as SVG, or as a list.
//!
//! Names come from the debug information (`debug = "line-tables-only"` is enough, and includes inlined functions), or
//! else from the symbol table. A stack begins with its thread's name.

use crate::kind::Kind;
use crate::ring::MAX_FRAMES;
use inferno::flamegraph;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// The inner frames of a stack that belong to the profiler itself or to its callers. They are removed.
const OWN: [&str; 5] =
    ["profile::native::", "profile::allocator::", "profile::locks::", "base::waits::", "__rust_"];
/// The frame of the runtime's entry into a thread. It is removed with all frames outside of it.
const RUNTIME: &str = "__rust_begin_short_backtrace";
/// The prefixes of the standard library. Neither it nor C code counts as the originator if the stack has another
/// function.
const LIBRARIES: [&str; 3] = ["core::", "alloc::", "std::"];

/// Stacks, each a thread's name and addresses, with the sum of their weights.
pub(crate) type Sums = HashMap<([u64; 2], Box<[u64]>), u64>;

/// A finished profile, with the names of functions.
#[derive(Clone, Debug)]
pub struct Profile {
    kind: Kind,
    time: Duration,
    /// Frames from the outermost to the innermost, separated by `;`.
    stacks: BTreeMap<String, u64>,
    lost: u64,
}

impl Profile {
    pub(crate) fn new(kind: Kind, time: Duration, sums: &Sums, lost: u64) -> Self {
        let mut names = Names::default();
        let mut stacks = BTreeMap::new();
        for ((thread, frames), weight) in sums {
            *stacks.entry(names.folded(*thread, frames)).or_default() += weight;
        }
        // The cache holds the debug information of the whole program.
        backtrace::clear_symbol_cache();
        Profile { kind, time, stacks, lost }
    }

    /// Returns what was sampled.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns how long the recording took.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Returns the total of all samples, in the [unit of the kind](Kind::unit).
    pub fn total(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns how many samples were lost because they came too fast.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the profile as folded text. Each line is a stack: frames from the outermost to the innermost,
    /// separated by `;`, then a space and a number. `flamegraph.pl`, `inferno` and speedscope read this format.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for (stack, weight) in &self.stacks {
            let _ = writeln!(text, "{stack} {weight}");
        }
        text
    }

    /// Returns a flame graph (Gregg 2011) as SVG for a browser. Width is the amount; a click zooms, Ctrl-F searches.
    /// It loads nothing from the network.
    pub fn svg(&self) -> String {
        draw(self.kind, &format!("{:.1} s", self.time.as_secs_f64()), &self.folded())
    }

    /// Returns the `most` functions with the largest amounts of their own, without the functions that they call. The
    /// amounts of the standard library, of the engine's lock function and of C code count for their caller.
    pub fn top(&self, most: usize) -> Vec<(&str, u64)> {
        let mut own = HashMap::<&str, u64>::new();
        for (stack, weight) in &self.stacks {
            *own.entry(doer(stack)).or_default() += weight;
        }
        let mut own: Vec<_> = own.into_iter().collect();
        own.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        own.truncate(most);
        own
    }
}

/// Draws a flame graph from folded text that [`Profile::folded`] returned. Its title is the kind and `of`.
pub fn draw(kind: Kind, of: &str, folded: &str) -> String {
    let title = match kind {
        Kind::Cpu => "CPU time",
        Kind::Alloc => "Allocated bytes",
        Kind::Lock => "Time spent waiting for locks",
    };
    let mut options = flamegraph::Options::default();
    options.title = format!("{title}, {of}");
    options.count_name = kind.unit().into();
    options.deterministic = true;
    let mut svg = Vec::new();
    let drawn = flamegraph::from_lines(&mut options, folded.lines(), &mut svg);
    match String::from_utf8(svg) {
        Ok(svg) if drawn.is_ok() => svg,
        _ => format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 600 40\"><text x=\"10\" y=\"25\">{title}: nothing \
             was seen</text></svg>\n"
        ),
    }
}

fn doer(stack: &str) -> &str {
    let is_library = |name: &str| {
        let bare = name.trim_start_matches(['<', '&']);
        LIBRARIES.iter().any(|library| bare.starts_with(library))
    };
    let acts =
        |name: &&str| name.contains("::") && !is_library(name) && !name.starts_with("pando_base::sync::");
    let innermost = stack.rsplit(';').next().unwrap_or(stack);
    stack.rsplit(';').find(acts).unwrap_or(innermost)
}

/// The names of addresses, each looked up once.
#[derive(Default)]
struct Names {
    /// The names of an address, innermost first. There are several if functions were inlined.
    known: HashMap<u64, Vec<String>>,
}

impl Names {
    fn folded(&mut self, thread: [u64; 2], frames: &[u64]) -> String {
        let mut inner_first = Vec::new();
        for &address in frames {
            inner_first.extend_from_slice(self.frames_at(address));
        }
        if let Some(outer) = inner_first.iter().position(|name| name.contains(RUNTIME)) {
            inner_first.truncate(outer);
        }
        let own = inner_first.iter().take_while(|name| OWN.iter().any(|own| name.contains(own))).count();
        let mut folded = frame_name(&thread_name(thread));
        if frames.len() == MAX_FRAMES {
            folded.push_str(";[deeper than recorded]");
        }
        for name in inner_first[own..].iter().rev() {
            folded.push(';');
            folded.push_str(name);
        }
        folded
    }

    fn frames_at(&mut self, address: u64) -> &[String] {
        self.known.entry(address).or_insert_with(|| {
            let mut names = Vec::new();
            backtrace::resolve(address as *mut _, |symbol| {
                let name = symbol.name().map(|name| format!("{name:#}"));
                let path = symbol.filename().and_then(Path::to_str);
                names.extend(name.map(|name| frame_name(&qualified(&name, path))));
            });
            if names.is_empty() {
                names.push("[unknown]".into());
            }
            names
        })
    }
}

/// Returns a function's name with its module and without type parameters. Line tables name functions without their
/// module and with all type parameters, so the module is derived from the path of the source.
fn qualified(name: &str, path: Option<&str>) -> String {
    let short = name.split_once('<').map_or(name, |(short, _)| short);
    match path.and_then(module) {
        Some(module) if !short.is_empty() && !short.contains("::") => format!("{module}::{short}"),
        _ => name.into(),
    }
}

/// Returns a module such as `pando_pool::fault` for `crates/pool/src/fault.rs` of this workspace.
fn module(path: &str) -> Option<String> {
    let (outside, inside) = path.strip_suffix(".rs")?.rsplit_once("/src/")?;
    let library = library(outside);
    let root = ["lib", "main", "mod"];
    let modules = inside.split('/').filter(|part| !root.contains(part));
    Some(std::iter::once(&library[..]).chain(modules).collect::<Vec<_>>().join("::"))
}

/// Returns the name of the library whose package is in `folder`. It is the folder's name, except for the packages of
/// Pando: their libraries have a prefix that their folders in the workspace lack, and that is longer in a registry.
fn library(folder: &str) -> String {
    let (parent, name) = split_folder(folder);
    // The folders of published packages end in a version.
    let is_version = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let name = name.rsplit_once('-').filter(|(_, end)| is_version(end)).map_or(name, |(name, _)| name);
    let here = file!().split_once("/src/").map_or("", |(folder, _)| folder);
    let is_beside = split_folder(here) == (parent, "profile") && name != "pando";
    let name = match name.strip_prefix("pando-db-") {
        Some(room) => format!("pando_{room}"),
        None if name == "pando-db" => "pando".into(),
        None if is_beside => format!("pando_{name}"),
        None => name.into(),
    };
    name.replace('-', "_")
}

/// Returns the path of the folder's parent, and the folder's name.
fn split_folder(folder: &str) -> (&str, &str) {
    folder.rsplit_once('/').unwrap_or(("", folder))
}

fn thread_name(words: [u64; 2]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Escapes a frame's name. In folded text `;` separates frames, and a line end separates stacks.
fn frame_name(name: &str) -> String {
    name.replace([';', '\n'], ":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let stacks = stacks.iter().map(|&(stack, weight)| (stack.to_string(), weight)).collect();
        Profile { kind: Kind::Lock, time: Duration::from_secs(1), stacks, lost: 0 }
    }

    #[test]
    fn the_same_stacks_as_text_as_picture_and_as_list() {
        let profile = profile(&[("main;a;b", 5), ("main;a", 2), ("other;b", 4)]);
        assert_eq!(profile.folded(), "main;a 2\nmain;a;b 5\nother;b 4\n");
        assert_eq!(profile.top(2), [("b", 9), ("a", 2)]);
        assert_eq!(profile.total(), 11);
        let svg = profile.svg();
        assert!(svg.starts_with("<?xml") && svg.contains("<title>a (7 ns, 63.64%)</title>"), "{svg}");
    }

    #[test]
    fn nothing_seen_is_a_picture_too() {
        let svg = profile(&[]).svg();
        assert!(svg.starts_with("<svg") && svg.contains("nothing was seen"), "{svg}");
    }

    #[test]
    fn a_sample_in_a_library_counts_for_its_caller() {
        assert_eq!(doer("main;io::os::sync;rustix::fs::fdatasync;__GI_fdatasync"), "rustix::fs::fdatasync");
        assert_eq!(doer("main;run::get::get;<alloc::vec::Vec<u8>>::clone;core::ptr::copy"), "run::get::get");
        assert_eq!(doer("main;log::append::append;pando_base::sync::lock"), "log::append::append");
        assert_eq!(doer("main;clone3;start_thread"), "start_thread");
    }

    #[test]
    fn short_names_get_the_module_of_their_source() {
        let ours = Some(file!().replace("profile/src/folded.rs", "run/src/editor/mod.rs"));
        let ours = ours.as_deref();
        assert_eq!(qualified("open<pando_base::error::Error>", ours), "pando_run::editor::open");
        assert_eq!(qualified("<pando_run::editor::Editor>::open", ours), "<pando_run::editor::Editor>::open");
        assert_eq!(qualified("pando_run::editor::open::<u8>", ours), "pando_run::editor::open::<u8>");
        let published = |package| Some(format!("/a/registry/src/index-1/{package}-0.1.0/src/read.rs"));
        assert_eq!(qualified("get", published("pando-db-run").as_deref()), "pando_run::read::get");
        assert_eq!(qualified("get", published("pando-db").as_deref()), "pando::read::get");
        assert_eq!(qualified("get", published("tree-map").as_deref()), "tree_map::read::get");
        assert_eq!(qualified("main", Some("/a/tool/src/main.rs")), "tool::main");
        let theirs = Some("/a/.cargo/registry/src/index.crates.io-1949cf/rustix-1.1.2/src/fs/fd.rs");
        assert_eq!(qualified("fdatasync", theirs), "rustix::fs::fd::fdatasync");
        assert_eq!(qualified("push<u8>", Some("/rustc/0f/library/alloc/src/vec/mod.rs")), "alloc::vec::push");
        assert_eq!(qualified("__memcpy", Some("../sysdeps/memcpy.S")), "__memcpy");
        assert_eq!(qualified("__memcpy", None), "__memcpy");
    }

    #[test]
    fn threads_names_end_at_the_first_zero() {
        let words = [u64::from_ne_bytes(*b"pando-lo"), u64::from_ne_bytes(*b"g\0\0\0\0\0\0\0")];
        assert_eq!(thread_name(words), "pando-log");
        assert_eq!(frame_name("f::<[u8; 4]>"), "f::<[u8: 4]>");
    }
}
