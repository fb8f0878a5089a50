//! Tests of the budget against a model: after any order of charges, splits, joins and drops, the accounts are right.

use super::*;
use crate::env::Random;
use std::sync::atomic::{AtomicBool, AtomicUsize as Count};

#[test]
fn the_books_agree_with_a_model() {
    for seed in 0..200 {
        let mut random = Random::seeded(seed);
        let limit = 1 + random.below(5_000) as usize;
        let budget = Budget::new(limit);
        let reserves: Vec<_> = (0..3).map(|_| random.below(limit as u64 / 4 + 1) as usize).collect();
        let accounts: Vec<_> = reserves.iter().map(|&reserve| budget.join("one", reserve).unwrap()).collect();
        let mut held: Vec<Vec<(MemoryCategory, Charge)>> = (0..3).map(|_| Vec::new()).collect();
        for step in 0..300 {
            let who = random.below(3) as usize;
            let category = MemoryCategory::ALL[random.below(MemoryCategory::COUNT as u64) as usize];
            let bytes = random.below(900) as usize;
            let used = reserves.iter().sum::<usize>()
                + held.iter().flatten().map(|(_, charge)| charge.bytes()).sum::<usize>();
            assert_eq!(budget.used_bytes(), used, "seed {seed}, step {step}");
            match random.below(4) {
                0 | 1 => {
                    let charged = accounts[who].charge(category, bytes);
                    assert_eq!(charged.is_some(), used + bytes <= limit, "seed {seed}, step {step}");
                    held[who].extend(charged.map(|charge| (category, charge)));
                }
                2 if !held[who].is_empty() => {
                    let at = random.below(held[who].len() as u64) as usize;
                    drop(held[who].swap_remove(at));
                }
                _ => {
                    let Some((category, charge)) = held[who].last_mut() else { continue };
                    let (category, mut part) = (*category, charge.split(bytes));
                    let fits = used + bytes <= limit + part.bytes();
                    assert_eq!(part.resize(bytes), fits, "seed {seed}, step {step}");
                    held[who].push((category, part));
                }
            }
            for (account, (charges, reserve)) in accounts.iter().zip(held.iter().zip(&reserves)) {
                for of in MemoryCategory::ALL {
                    let own = charges.iter().filter(|(category, _)| *category == of);
                    let sum: usize = own.map(|(_, charge)| charge.bytes()).sum();
                    let kept = if of == MemoryCategory::Checkpoint { *reserve } else { 0 };
                    assert_eq!(account.held().bytes(of), sum + kept, "seed {seed}, step {step}");
                }
            }
            assert!(budget.used_bytes() <= limit, "seed {seed}, step {step}");
        }
        assert_eq!(budget.held().total(), budget.used_bytes());
        drop(accounts);
        drop(held);
        assert_eq!((budget.used_bytes(), budget.members()), (0, 0), "seed {seed}");
    }
}

#[test]
fn many_threads_never_pass_the_ceiling() {
    let budget = Budget::new(10_000);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (budget, over) = (&budget, &over);
            scope.spawn(move || {
                let account = budget.join("one", 100).unwrap();
                let (mut random, mut held) = (Random::seeded(seed), Vec::new());
                for _ in 0..20_000 {
                    if random.chance(1, 2) {
                        held.extend(account.charge(MemoryCategory::Pool, random.below(2_000) as usize));
                    } else {
                        held.pop();
                    }
                    if budget.used_bytes() > budget.limit_bytes() {
                        over.store(true, std::sync::atomic::Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(!over.into_inner());
    assert_eq!(budget.used_bytes(), 0);
    assert!(budget.peak_bytes() <= 10_000);
}

/// Gives its charge back when it must, after it was asked `late` times.
#[derive(Debug)]
struct Pages {
    charge: Mutex<Option<Charge>>,
    idle: Mutex<Option<Charge>>,
    late: Count,
    relieved: AtomicBool,
}

impl Member for Pages {
    fn give_idle(&self, bytes: usize) -> usize {
        let mut idle = lock(&self.idle);
        let charge = idle.as_mut().map(|idle| idle.split(bytes));
        charge.map_or(0, |charge| charge.bytes())
    }

    fn give_pages(&self, _: usize, need: Need) -> Given {
        if need == Need::Wish {
            return Given::Bytes(0);
        }
        let late = |late: usize| late.checked_sub(1);
        if self.late.fetch_update(Ordering::SeqCst, Ordering::SeqCst, late).is_ok() {
            return Given::Soon;
        }
        Given::Bytes(lock(&self.charge).take().map_or(0, |charge| charge.bytes()))
    }

    fn relieve(&self) -> bool {
        self.relieved.swap(true, Ordering::SeqCst)
    }
}

/// Others may take what pools give up, again and again.
#[test]
fn a_reserve_is_waited_for_while_pools_have_it() {
    let budget = Budget::new(1_000);
    let idle = budget.join("idle", 100).unwrap();
    let charge = Mutex::new(idle.charge(MemoryCategory::Pool, 700));
    let pages = Arc::new(Pages {
        charge,
        idle: Mutex::default(),
        late: Count::new(200),
        relieved: AtomicBool::new(false),
    });
    let member: Arc<dyn Member> = pages.clone();
    idle.set_member(Arc::downgrade(&member));
    assert_eq!(budget.join("too large", 901).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(pages.late.load(Ordering::SeqCst), 200 - super::ROUNDS, "nothing is waited for in vain");
    drop(budget.join("new", 300).unwrap());
    assert_eq!(pages.late.load(Ordering::SeqCst), 0);
}

#[test]
fn pools_give_way_to_what_must_be() {
    let budget = Budget::new(1_000);
    let (idle, busy) = (budget.join("idle", 100).unwrap(), budget.join("busy", 100).unwrap());
    let charge = Mutex::new(idle.charge(MemoryCategory::Pool, 700));
    let pages = Arc::new(Pages {
        charge,
        idle: Mutex::default(),
        late: Count::new(3),
        relieved: AtomicBool::new(false),
    });
    let member: Arc<dyn Member> = pages.clone();
    idle.set_member(Arc::downgrade(&member));
    assert!(busy.charge(MemoryCategory::Memtables, 500).is_none());
    assert!(!busy.ask_others(500), "a wish gets what nobody uses, and no more");
    let memtable = busy.charge_making_room(MemoryCategory::Memtables, 500).expect("the pool gives way");
    assert_eq!((budget.used_bytes(), idle.held().bytes(MemoryCategory::Pool)), (700, 0));
    assert!(busy.charge_making_room(MemoryCategory::Memtables, 500).is_none(), "nobody has anything to give");
    assert!(budget.join("one too many", 400).is_err());
    assert!(pages.relieved.load(Ordering::SeqCst), "it was asked to merge");
    assert!(budget.relieve());
    drop(memtable);
}

/// The pools of other databases keep their pages.
#[test]
fn idle_chunks_of_any_database_go_before_pages() {
    let budget = Budget::new(1_000);
    let [reader, writer] = ["reader", "writer"].map(|name| budget.join(name, 0).unwrap());
    let members = [(&reader, 500, 0), (&writer, 100, 300)].map(|(account, pages, idle)| {
        let [charge, idle] = [(MemoryCategory::Pool, pages), (MemoryCategory::IdleChunks, idle)]
            .map(|(category, bytes)| Mutex::new(account.charge(category, bytes)));
        let member: Arc<dyn Member> =
            Arc::new(Pages { charge, idle, late: Count::new(0), relieved: AtomicBool::new(false) });
        account.set_member(Arc::downgrade(&member));
        member
    });
    assert_eq!((budget.used_bytes(), budget.firm_bytes()), (900, 0));
    let held = |category| budget.held_as(category);
    let dirty = reader.charge_making_room(MemoryCategory::Checkpoint, 250).unwrap();
    assert_eq!((held(MemoryCategory::Pool), held(MemoryCategory::IdleChunks)), (600, 150));
    assert!(writer.ask_others(100), "a pool gets what its own database has idle");
    assert_eq!((held(MemoryCategory::Pool), held(MemoryCategory::IdleChunks)), (600, 50));
    let more = reader.charge_making_room(MemoryCategory::Checkpoint, 300).unwrap();
    assert_eq!((held(MemoryCategory::Pool), held(MemoryCategory::IdleChunks)), (100, 0));
    assert_eq!(budget.firm_bytes(), 550);
    drop((dirty, more, members));
    assert_eq!(budget.used_bytes(), 0);
}
