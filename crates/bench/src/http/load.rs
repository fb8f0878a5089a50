//! Sends requests over many connections from one thread.
//!
//! 1. Requests are numbered. Each is sent on the connection that has been idle for longest, so that all connections are
//!    used even if few requests are in progress. Without a rate it is sent as soon as a connection is idle. With a rate
//!    it is not sent before `number / rate` after the start.
//! 2. A latency counts from the time when its request was *due*, even if it was sent later. A stall of the server
//!    therefore counts for all requests that it delayed, and not only for the 64 that were in progress (Tene's
//!    "coordinated omission").
//! 3. The run ends when the time is over or enough requests were sent, and all have a response.
//!
//! A single thread that waits in `epoll` disturbs the server least. Its own work is part of what is measured; its waits
//! for a processor are kept short ([`ShortTimeSlice`]).

use super::connection::{Connection, Reply};
use crate::Outcome;
use crate::measure::latencies;
use hdrhistogram::Histogram;
use io::ShortTimeSlice;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::retry_on_intr;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The number of events that are read at a time.
const EVENTS: usize = 256;
/// The longest single wait; longer ones are repeated.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The pace of requests.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The number of connections.
    pub connections: usize,
    /// The requests per second; `None`: each connection sends the next request after the response to the last.
    pub rate: Option<f64>,
    /// The duration of the run.
    pub time: Duration,
    /// The largest number of requests.
    pub most: u64,
}

/// The requests to send, and the check of their responses.
pub trait Requests {
    /// Writes request `number` into `out`, which is empty. Returns the token for `check`.
    fn write(&mut self, number: u64, out: &mut Vec<u8>) -> u64;
    /// Fails unless the response to the request of that token is right.
    fn check(&mut self, token: u64, reply: Reply<'_>) -> Outcome<()>;
}

/// The results of a run.
#[derive(Debug)]
pub struct Seen {
    /// The latencies from the time when a request was due to its response.
    pub latencies: Histogram<u64>,
    /// The latencies of the requests due in each second.
    pub by_second: Vec<Second>,
    /// The seconds from the first to the last response.
    pub seconds: f64,
}

/// The requests due in one second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// The number of requests.
    pub count: u64,
    /// The median latency.
    pub p50_ns: u64,
    /// The 99th percentile of the latency.
    pub p99_ns: u64,
    /// The largest latency.
    pub max_ns: u64,
}

impl Seen {
    /// Returns the responses per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Sends `requests` to `address` at the given pace.
///
/// # Errors
/// An error of a socket, or of `requests`.
pub fn run(address: SocketAddr, pace: Pace, requests: &mut dyn Requests) -> Outcome<Seen> {
    let _slice = ShortTimeSlice::begin();
    let mut load = Load::new(address, pace)?;
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        load.send(requests)?;
        if load.is_over() && load.idle.len() == load.lanes.len() {
            return Ok(load.tally.seen());
        }
        load.wait(&mut events)?;
        for at in events.iter().map(|event: &epoll::Event| event.data.u64() as usize) {
            load.take(at, requests)?;
        }
    }
}

/// A connection, and the request in progress on it.
struct Lane {
    connection: Connection,
    due: Instant,
    token: u64,
    /// Whether the socket is also watched for room to write.
    watches_room: bool,
}

struct Load {
    pace: Pace,
    epoll: OwnedFd,
    lanes: Vec<Lane>,
    /// The idle connections, the one that has been idle for longest first.
    idle: VecDeque<usize>,
    start: Instant,
    /// The number of the next request.
    next: u64,
    buffer: Vec<u8>,
    tally: Tally,
}

impl Load {
    fn new(address: SocketAddr, pace: Pace) -> Outcome<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let start = Instant::now();
        let mut lanes = Vec::new();
        for at in 0..pace.connections {
            let connection = Connection::open(address)?;
            epoll::add(&epoll, &connection, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
            lanes.push(Lane { connection, due: start, token: 0, watches_room: false });
        }
        let (idle, start) = ((0..lanes.len()).collect(), Instant::now());
        Ok(Load { pace, epoll, lanes, idle, start, next: 0, buffer: Vec::new(), tally: Tally::new(start) })
    }

    /// Returns when the next request is due.
    fn due(&self, now: Instant) -> Instant {
        let after = |rate: f64| self.start + Duration::from_secs_f64(self.next as f64 / rate);
        self.pace.rate.map_or(now, after)
    }

    /// Returns whether nothing more is sent, because the next request would be due after the end.
    fn is_over(&self) -> bool {
        self.next >= self.pace.most || self.due(Instant::now()) >= self.start + self.pace.time
    }

    fn send(&mut self, requests: &mut dyn Requests) -> Outcome<()> {
        while !self.idle.is_empty() && !self.is_over() {
            let now = Instant::now();
            let due = self.due(now);
            if due > now {
                return Ok(());
            }
            let at = self.idle.pop_front().expect("there is one");
            self.buffer.clear();
            let token = requests.write(self.next, &mut self.buffer);
            self.next += 1;
            let lane = &mut self.lanes[at];
            (lane.due, lane.token) = (due, token);
            lane.connection.send(&self.buffer)?;
            self.watch(at)?;
        }
        Ok(())
    }

    fn take(&mut self, at: usize, requests: &mut dyn Requests) -> Outcome<()> {
        let lane = &mut self.lanes[at];
        let token = lane.token;
        if lane.connection.receive(|reply| requests.check(token, reply))? {
            self.tally.note(lane.due, Instant::now());
            self.idle.push_back(at);
        }
        self.watch(at)
    }

    /// Watches the socket for room to write while bytes wait for it.
    fn watch(&mut self, at: usize) -> Outcome<()> {
        let lane = &mut self.lanes[at];
        let wants_room = lane.connection.is_sending();
        if wants_room != lane.watches_room {
            lane.watches_room = wants_room;
            let room = if wants_room { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let (data, flags) = (epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN | room);
            epoll::modify(&self.epoll, &lane.connection, data, flags)?;
        }
        Ok(())
    }

    /// Waits for responses, or until the next request is due and can be sent.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> Outcome<()> {
        events.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        retry_on_intr(|| epoll::wait(&self.epoll, spare_capacity(events), Some(&at_once)))?;
        if !events.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let sends_next = !self.idle.is_empty() && !self.is_over();
        let until = if sends_next { self.due(now).saturating_duration_since(now) } else { LONGEST_WAIT };
        let until = until.min(LONGEST_WAIT);
        // `epoll_wait` has a resolution of milliseconds, and `ppoll` one of microseconds.
        let until = Timespec { tv_sec: until.as_secs() as i64, tv_nsec: i64::from(until.subsec_nanos()) };
        let ready = retry_on_intr(|| poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&until)))?;
        if ready > 0 {
            retry_on_intr(|| epoll::wait(&self.epoll, spare_capacity(events), Some(&at_once)))?;
        }
        Ok(())
    }
}

/// The latencies in total and for each second.
struct Tally {
    start: Instant,
    last: Instant,
    all: Histogram<u64>,
    seconds: Vec<Histogram<u64>>,
}

impl Tally {
    fn new(start: Instant) -> Self {
        Tally { start, last: start, all: latencies(), seconds: Vec::new() }
    }

    fn note(&mut self, due: Instant, now: Instant) {
        let took_ns = now.saturating_duration_since(due).as_nanos() as u64;
        let second = due.saturating_duration_since(self.start).as_secs() as usize;
        while self.seconds.len() <= second {
            self.seconds.push(latencies());
        }
        self.seconds[second].saturating_record(took_ns);
        self.all.saturating_record(took_ns);
        self.last = now;
    }

    fn seen(self) -> Seen {
        let second = |taken: &Histogram<u64>| Second {
            count: taken.len(),
            p50_ns: taken.value_at_quantile(0.5),
            p99_ns: taken.value_at_quantile(0.99),
            max_ns: taken.max(),
        };
        Seen {
            by_second: self.seconds.iter().map(second).collect(),
            seconds: (self.last - self.start).as_secs_f64(),
            latencies: self.all,
        }
    }
}
