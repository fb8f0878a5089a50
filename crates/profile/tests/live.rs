//! What is known to happen is seen, under its name. One test: there is one recording at a time in a process.

use pando_profile::{Error, Kind, Profile, Recording};
use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: pando_profile::Allocator<System> = pando_profile::Allocator::new(System);

/// The processor's time that a thread takes, where the kernel counts it; else what passes, which is more if others
/// use the machine.
struct OwnTime(Instant, Option<Duration>);

impl OwnTime {
    fn start() -> Self {
        OwnTime(Instant::now(), OwnTime::so_far())
    }

    fn so_far() -> Option<Duration> {
        let counters = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        counters.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }

    fn taken(&self) -> Duration {
        OwnTime::so_far().zip(self.1).map_or(self.0.elapsed(), |(now, then)| now - then)
    }
}

/// Takes so much of the processor's time.
#[inline(never)]
fn burn(time: Duration) -> u64 {
    let (own, mut sum) = (OwnTime::start(), 0);
    while own.taken() < time {
        sum = (0..1_000_000_u64).fold(sum, |sum, n| black_box(sum ^ n.wrapping_mul(sum | 1)));
    }
    black_box(sum)
}

#[inline(never)]
fn outer(time: Duration) -> u64 {
    black_box(burn(time) + 1)
}

#[inline(never)]
fn allocate(kib: usize) -> Vec<u8> {
    black_box(vec![1; kib << 10])
}

#[inline(never)]
fn wait_for(mutex: &base::sync::Mutex<()>) {
    drop(base::sync::lock(mutex));
}

/// The share of a profile in stacks that have all of `names`, outermost first.
fn share(profile: &Profile, names: &[&str]) -> f64 {
    let folded = profile.folded();
    let seen: u64 = folded
        .lines()
        .map(|line| line.rsplit_once(' ').expect("stack and figure"))
        .filter(|(stack, _)| {
            let mut rest = *stack;
            names.iter().all(|name| rest.find(name).map(|at| rest = &rest[at..]).is_some())
        })
        .map(|(_, figure)| figure.parse::<u64>().expect("a figure"))
        .sum();
    seen as f64 / profile.total().max(1) as f64
}

fn cpu() {
    let recording = Recording::start(Kind::Cpu).unwrap();
    assert!(matches!(Recording::start(Kind::Alloc), Err(Error::Busy)));
    let threads = ["red", "blue"].map(|name| {
        std::thread::Builder::new().name(name.into()).spawn(|| outer(Duration::from_millis(500))).unwrap()
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let profile = recording.stop();
    assert!(profile.total() > 20, "{} samples", profile.total());
    assert!(share(&profile, &["live::outer", "live::burn"]) > 0.8, "{}", profile.folded());
    for thread in ["red;", "blue;"] {
        assert!(share(&profile, &[thread, "live::burn"]) > 0.1, "{}", profile.folded());
    }
    assert!(profile.top(1)[0].0.contains("burn") || share(&profile, &["burn"]) > 0.8);
}

fn allocations() {
    let recording = Recording::start(Kind::Alloc).unwrap();
    for _ in 0..1000 {
        drop((allocate(10), allocate(30)));
    }
    let profile = recording.stop();
    let (expected, total) = (40_000.0 * 1024.0, profile.total() as f64);
    assert!((0.9..1.2).contains(&(total / expected)), "{total} of {expected} bytes");
    assert!(share(&profile, &["live::allocate"]) > 0.95, "{}", profile.folded());
    let (innermost, _) = profile.top(1)[0];
    assert!(!innermost.contains("pando_profile::"), "{innermost}");
}

fn locks() {
    let mutex = base::sync::Mutex::new(());
    let waited = || {
        let recording = Recording::start(Kind::Lock).unwrap();
        std::thread::scope(|scope| {
            let held = base::sync::lock(&mutex);
            scope.spawn(|| wait_for(&mutex));
            std::thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        recording.stop()
    };
    // On a busy machine the thread may come too late to wait for long.
    let profile = std::iter::repeat_with(waited).take(20).find(|profile| profile.total() > 10_000_000);
    let profile = profile.expect("a wait of 50 ms is seen");
    assert!(share(&profile, &["live::wait_for"]) > 0.9, "{}", profile.folded());
}

/// Signals between any two instructions of threads that allocate, unwind, start and end.
fn hurried() {
    let recording = Recording::start(Kind::Cpu).unwrap();
    let (began, least) = (Instant::now(), Duration::from_millis(300));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = OwnTime::start();
                while began.elapsed() < least || own.taken() < least / 10 {
                    let caught =
                        std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(allocate(1))));
                    assert!(caught.is_err());
                    std::thread::spawn(|| drop(std::backtrace::Backtrace::force_capture())).join().unwrap();
                }
            });
        }
    });
    assert!(recording.stop().total() > 5);
}

#[test]
fn what_happens_is_seen() {
    cpu();
    allocations();
    locks();
    hurried();
    // Dropped, it makes way for the next.
    drop(Recording::start(Kind::Lock).unwrap());
    let again = pando_profile::cpu(Duration::from_millis(5)).unwrap();
    assert_eq!(again.kind(), Kind::Cpu);
}
