//! Outcomes and their tasks, and an inbox and its thread, under every interleaving:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p pando-db-base --test oneshot_loom`.
//!
//! 1. A task that waits gets the value, or learns that there will be none: no wake-up is lost.
//! 2. A value whose receiver is dropped at the same time is dropped once.
//! 3. The thread of an inbox gets every item that was accepted, and then ends: no item is left lying while it sleeps.
//!
//! Red when the code is broken: `Receiver::poll` that stores the waker in a second locking; `Sender::drop` that does
//! not wake; `Inbox::take` that notes its sleep after it looked, in a locking of its own; `close` that does not notify.
#![cfg(loom)]

use loom::sync::{Condvar, Mutex};
use loom::thread;
use pando_base::inbox::Inbox;
use pando_base::oneshot::{Receiver, channel};
use pando_base::sync::Arc;
use pando_base::sync::atomic::{AtomicUsize, Ordering};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

/// An executor of one task, which sleeps until it is woken.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

fn block_on<T>(mut receiver: Receiver<T>) -> Option<T> {
    let bell = std::sync::Arc::new(Bell::default());
    let waker = Waker::from(std::sync::Arc::clone(&bell));
    loop {
        match Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => {
                let mut rung = bell.rung.lock().unwrap();
                while !*rung {
                    rung = bell.changed.wait(rung).unwrap();
                }
                *rung = false;
            }
        }
    }
}

#[test]
fn a_task_gets_the_value() {
    loom::model(|| {
        let (sender, receiver) = channel();
        let sent = thread::spawn(move || sender.send(7));
        assert_eq!(block_on(receiver), Some(7));
        sent.join().unwrap();
    });
}

#[test]
fn a_task_learns_that_its_sender_ended() {
    loom::model(|| {
        let (sender, receiver) = channel::<()>();
        let ended = thread::spawn(move || drop(sender));
        assert_eq!(block_on(receiver), None);
        ended.join().unwrap();
    });
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_value_that_nobody_takes_is_dropped_once() {
    loom::model(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let (sender, mut receiver) = channel();
        let value = Counted(Arc::clone(&drops));
        let sent = thread::spawn(move || {
            let _ = sender.is_awaited();
            sender.send(value);
        });
        let _ = Pin::new(&mut receiver).poll(&mut Context::from_waker(Waker::noop()));
        drop(receiver);
        sent.join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_thread_gets_all_items_and_the_end() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::default());
        let pushes: Vec<_> = (0..2)
            .map(|item| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || inbox.push(item).is_ok())
            })
            .collect();
        let taker = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                let (mut taken, mut batch) = (Vec::new(), Vec::new());
                while inbox.take(&mut batch, None) {
                    taken.append(&mut batch);
                }
                taken
            })
        };
        let accepted = pushes.into_iter().map(|push| push.join().unwrap()).filter(|ok| *ok).count();
        inbox.close();
        let mut taken = taker.join().unwrap();
        taken.sort_unstable();
        assert_eq!((accepted, taken), (2, vec![0, 1]));
    });
}

#[test]
fn what_is_pushed_while_the_inbox_closes_is_taken_or_refused() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::default());
        let push = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.push(7).is_ok())
        };
        let close = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.close())
        };
        let (mut taken, mut batch) = (Vec::new(), Vec::new());
        while inbox.take(&mut batch, None) {
            taken.append(&mut batch);
        }
        assert_eq!(taken.len(), usize::from(push.join().unwrap()));
        close.join().unwrap();
    });
}
