//! `serve --redis`: a door for clients of Redis.

use crate::open::DurabilityName;
use clap::Args;
use server::{Config, Redis};
use std::net::SocketAddr;

/// Options of `serve`.
#[derive(Args, Clone, Debug)]
pub struct RedisArgs {
    /// Listen on this address and port for clients of Redis, for example 127.0.0.1:6379; docs/redis.md lists the
    /// commands [default: do not listen]
    #[arg(long, value_name = "ADDR", env = "PANDO_REDIS")]
    redis: Option<SocketAddr>,
    /// Store the keys of Redis' clients in this database, in tables `redis-0` to `redis-15`
    #[arg(long, value_name = "NAME", default_value = server::DEFAULT_DATABASE, env = "PANDO_REDIS_DATABASE")]
    redis_database: String,
    /// The durability of a write before its reply to a client of Redis [default: that of --durability]
    #[arg(long, value_enum, value_name = "MODE", env = "PANDO_REDIS_DURABILITY")]
    redis_durability: Option<DurabilityName>,
    /// Accept at most N connections of Redis' clients; further ones get an error
    #[arg(long, value_name = "N", default_value_t = 1024, env = "PANDO_REDIS_MAX_CONNECTIONS",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    redis_max_connections: u32,
}

impl RedisArgs {
    /// Adds the door to the configuration of a server, if it is asked for.
    pub fn add_to(&self, config: &mut Config) {
        let Some(listen) = self.redis else { return };
        let options = resp::Options {
            listen,
            durability: self.redis_durability.map_or(config.durability, Into::into),
            connections: self.redis_max_connections as usize,
            command_bytes: usize::try_from(config.limits.body_bytes).unwrap_or(usize::MAX),
            ..resp::Options::default()
        };
        config.redis = Some(Redis { database: self.redis_database.clone(), options });
    }
}
