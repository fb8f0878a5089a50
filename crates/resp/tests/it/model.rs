//! Random commands against a model.

use crate::client::{Client, Served};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
enum Value {
    Text(Vec<u8>),
    List(VecDeque<u64>),
    Hash(BTreeMap<u64, u64>),
    Sorted(BTreeMap<u64, i64>),
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

type Model = BTreeMap<u64, Value>;
const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

fn list(model: &mut Model, key: u64) -> Option<&mut VecDeque<u64>> {
    match model.entry(key).or_insert_with(|| Value::List(VecDeque::new())) {
        Value::List(list) => Some(list),
        _ => None,
    }
}

fn hash(model: &mut Model, key: u64) -> Option<&mut BTreeMap<u64, u64>> {
    match model.entry(key).or_insert_with(|| Value::Hash(BTreeMap::new())) {
        Value::Hash(hash) => Some(hash),
        _ => None,
    }
}

fn sorted(model: &mut Model, key: u64) -> Option<&mut BTreeMap<u64, i64>> {
    match model.entry(key).or_insert_with(|| Value::Sorted(BTreeMap::new())) {
        Value::Sorted(sorted) => Some(sorted),
        _ => None,
    }
}

fn quoted(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    format!("[{}]", words.join(", "))
}

/// A command, and the reply that the model expects.
fn step(model: &mut Model, random: &mut Random) -> (String, String) {
    let (key, n, m) = (random.below(6), random.below(8), random.below(40) as i64 - 20);
    let wrong = || WRONG.to_owned();
    let step = match random.below(16) {
        0 => {
            model.insert(key, Value::Text(n.to_string().into_bytes()));
            (format!("SET {key} {n}"), "OK".to_owned())
        }
        1 => {
            let is_there = model.remove(&key).is_some();
            (format!("DEL {key}"), u8::from(is_there).to_string())
        }
        2 => {
            let text = match model.entry(key).or_insert_with(|| Value::Text(Vec::new())) {
                Value::Text(text) => {
                    text.extend(n.to_string().bytes());
                    text.len().to_string()
                }
                _ => wrong(),
            };
            (format!("APPEND {key} {n}"), text)
        }
        3 => {
            let reply = list(model, key).map_or_else(wrong, |list| {
                list.push_back(n);
                list.push_back(n + 1);
                list.len().to_string()
            });
            (format!("RPUSH {key} {n} {}", n + 1), reply)
        }
        4 => {
            let reply = list(model, key).map_or_else(wrong, |list| {
                list.push_front(n);
                list.len().to_string()
            });
            (format!("LPUSH {key} {n}"), reply)
        }
        5 => {
            let popped =
                |list: &mut VecDeque<u64>| list.pop_front().map_or("nil".into(), |n| format!("\"{n}\""));
            (format!("LPOP {key}"), list(model, key).map_or_else(wrong, popped))
        }
        6 => {
            let popped =
                |list: &mut VecDeque<u64>| list.pop_back().map_or("nil".into(), |n| format!("\"{n}\""));
            (format!("RPOP {key}"), list(model, key).map_or_else(wrong, popped))
        }
        7 => {
            let reply = list(model, key).map_or_else(wrong, |list| {
                let before = list.len();
                list.retain(|&own| own != n);
                (before - list.len()).to_string()
            });
            (format!("LREM {key} 0 {n}"), reply)
        }
        8 => {
            let all = |list: &mut VecDeque<u64>| quoted(list.iter().map(u64::to_string));
            (format!("LRANGE {key} 0 -1"), list(model, key).map_or_else(wrong, all))
        }
        9 => {
            let reply = list(model, key).map_or_else(wrong, |list| {
                let at = list.iter().position(|&own| own == n);
                match at {
                    _ if list.is_empty() => "0".to_owned(),
                    None => "-1".to_owned(),
                    Some(at) => {
                        list.insert(at, 99);
                        list.len().to_string()
                    }
                }
            });
            (format!("LINSERT {key} BEFORE {n} 99"), reply)
        }
        10 => {
            let reply = hash(model, key)
                .map_or_else(wrong, |hash| u8::from(hash.insert(n, m as u64).is_none()).to_string());
            (format!("HSET {key} {n} {}", m as u64), reply)
        }
        11 => {
            let reply =
                hash(model, key).map_or_else(wrong, |hash| u8::from(hash.remove(&n).is_some()).to_string());
            (format!("HDEL {key} {n}"), reply)
        }
        12 => {
            let all = |hash: &mut BTreeMap<u64, u64>| {
                quoted(hash.iter().flat_map(|(field, value)| [field.to_string(), value.to_string()]))
            };
            (format!("HGETALL {key}"), hash(model, key).map_or_else(wrong, all))
        }
        13 => {
            let reply =
                sorted(model, key).map_or_else(wrong, |set| u8::from(set.insert(n, m).is_none()).to_string());
            (format!("ZADD {key} {m} {n}"), reply)
        }
        14 => {
            let reply =
                sorted(model, key).map_or_else(wrong, |set| u8::from(set.remove(&n).is_some()).to_string());
            (format!("ZREM {key} {n}"), reply)
        }
        _ => {
            let all = |set: &mut BTreeMap<u64, i64>| {
                let mut all: Vec<(i64, u64)> = set.iter().map(|(&member, &score)| (score, member)).collect();
                all.sort_unstable();
                quoted(all.into_iter().flat_map(|(score, member)| [member.to_string(), score.to_string()]))
            };
            (format!("ZRANGE {key} 0 -1 WITHSCORES"), sorted(model, key).map_or_else(wrong, all))
        }
    };
    // A collection without elements does not exist.
    model.retain(|_, value| match value {
        Value::Text(_) => true,
        Value::List(list) => !list.is_empty(),
        Value::Hash(hash) => !hash.is_empty(),
        Value::Sorted(sorted) => !sorted.is_empty(),
    });
    step
}

fn run(client: &mut Client, model: &mut Model, random: &mut Random, seed: u64, steps: usize) {
    for batch in 0..steps / 10 {
        let steps: Vec<(String, String)> = (0..10).map(|_| step(model, random)).collect();
        // The commands of a batch are sent before a reply is read, so that they share a transaction.
        for (command, _) in &steps {
            client.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        for (command, expected) in &steps {
            assert_eq!(&client.reply(), expected, "seed {seed}, batch {batch}: {command}");
        }
    }
}

#[test]
fn random_commands_do_what_the_model_does() {
    for seed in 1..=4 {
        let dir = tempfile::tempdir().unwrap();
        let (mut model, mut random) = (Model::new(), Random(seed));
        for _ in 0..3 {
            // Everything is there after a restart.
            let served = Served::over(pando::Database::create(dir.path()).unwrap(), Default::default());
            let mut client = served.client();
            run(&mut client, &mut model, &mut random, seed, 1500);
            assert_eq!(client.ask("DBSIZE"), model.len().to_string(), "seed {seed}");
            let host = served.host.clone();
            drop((client, served));
            host.db.check().unwrap();
            host.db.close().unwrap();
        }
    }
}
