use crate::client::Served;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn hashes() {
    let served = Served::start();
    served.client().check(&[
        ("HSET h a 1 b 2", "2"),
        ("HSET h a 3 c 4", "1"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
        ("HSET h a 3 c", "-ERR wrong number of arguments for 'hset' command"),
        ("HGET h a", "\"3\""),
        ("HGET h x", "nil"),
        ("HMGET h a x b", "[\"3\", nil, \"2\"]"),
        ("HGETALL h", "[\"a\", \"3\", \"b\", \"2\", \"c\", \"4\"]"),
        ("HKEYS h", "[\"a\", \"b\", \"c\"]"),
        ("HVALS h", "[\"3\", \"2\", \"4\"]"),
        ("HLEN h", "3"),
        ("HSETNX h a 9", "0"),
        ("HSETNX h d 9", "1"),
        ("HEXISTS h d", "1"),
        ("HSTRLEN h d", "1"),
        ("HINCRBY h d 2", "11"),
        ("HINCRBYFLOAT h d 0.5", "\"11.5\""),
        ("HINCRBY h d 1", "-ERR hash value is not an integer"),
        ("HSCAN h 0", "[\"0\", [\"a\", \"3\", \"b\", \"2\", \"c\", \"4\", \"d\", \"11.5\"]]"),
        ("HSCAN h 0 NOVALUES MATCH [ab]", "[\"0\", [\"a\", \"b\"]]"),
        ("HDEL h a x b", "2"),
        ("HDEL h c d", "2"),
        ("EXISTS h", "0"),
        ("HGETALL h", "[]"),
        ("SET s x", "OK"),
        ("HSET s a 1", WRONG),
        ("HGET s a", WRONG),
        ("INCR s", "-ERR value is not an integer or out of range"),
    ]);
}

#[test]
fn lists() {
    let served = Served::start();
    served.client().check(&[
        ("RPUSH l a b c", "3"),
        ("LPUSH l z y", "5"),
        ("LRANGE l 0 -1", "[\"y\", \"z\", \"a\", \"b\", \"c\"]"),
        ("LRANGE l -2 100", "[\"b\", \"c\"]"),
        ("LRANGE l 3 1", "[]"),
        ("LLEN l", "5"),
        ("LINDEX l 0", "\"y\""),
        ("LINDEX l -1", "\"c\""),
        ("LINDEX l 5", "nil"),
        ("LSET l 1 Z", "OK"),
        ("LSET l 9 Z", "-ERR index out of range"),
        ("LSET nothing 0 Z", "-ERR no such key"),
        ("LPOP l", "\"y\""),
        ("RPOP l 2", "[\"c\", \"b\"]"),
        ("LPOP nothing", "nil"),
        ("LPOP nothing 2", "nil"),
        ("LRANGE l 0 -1", "[\"Z\", \"a\"]"),
        ("LINSERT l BEFORE a x", "3"),
        ("LINSERT l AFTER a y", "4"),
        ("LINSERT l AFTER none y", "-1"),
        ("LRANGE l 0 -1", "[\"Z\", \"x\", \"a\", \"y\"]"),
        ("RPUSH r 1 2 1 2 1", "5"),
        ("LREM r 2 1", "2"),
        ("LRANGE r 0 -1", "[\"2\", \"2\", \"1\"]"),
        ("LREM r -1 2", "1"),
        ("LRANGE r 0 -1", "[\"2\", \"1\"]"),
        ("LPOS r 1", "1"),
        ("RPUSH p a b a c a", "5"),
        ("LPOS p a RANK 2", "2"),
        ("LPOS p a RANK -1 COUNT 2", "[4, 2]"),
        ("LPOS p a COUNT 0", "[0, 2, 4]"),
        ("LPOS p x", "nil"),
        ("LTRIM p 1 3", "OK"),
        ("LRANGE p 0 -1", "[\"b\", \"a\", \"c\"]"),
        ("LTRIM p 5 9", "OK"),
        ("EXISTS p", "0"),
        ("LMOVE l r LEFT RIGHT", "\"Z\""),
        ("RPOPLPUSH r l", "\"Z\""),
        ("LRANGE l 0 -1", "[\"Z\", \"x\", \"a\", \"y\"]"),
        ("LMOVE l l LEFT RIGHT", "\"Z\""),
        ("LRANGE l 0 -1", "[\"x\", \"a\", \"y\", \"Z\"]"),
        ("LMOVE nothing l LEFT RIGHT", "nil"),
        ("LMPOP 2 nothing l LEFT COUNT 2", "[\"l\", [\"x\", \"a\"]]"),
        ("LMPOP 1 nothing LEFT", "nil"),
        ("BLMPOP 0.01 1 nothing LEFT", "nil"),
        ("LMPOP 1 l UP", "-ERR syntax error"),
        ("COPY l other DB 2", "1"),
        ("SELECT 2", "OK"),
        ("LRANGE other 0 -1", "[\"y\", \"Z\"]"),
        ("SELECT 0", "OK"),
        ("LPUSHX nothing x", "0"),
        ("EXISTS nothing", "0"),
    ]);
}

#[test]
fn sets() {
    let served = Served::start();
    served.client().check(&[
        ("SADD s a b c a", "3"),
        ("SADD s a", "0"),
        ("SCARD s", "3"),
        ("SISMEMBER s a", "1"),
        ("SMISMEMBER s a x", "[1, 0]"),
        ("SMEMBERS s", "[\"a\", \"b\", \"c\"]"),
        ("SADD t b c d", "3"),
        ("SINTER s t", "[\"b\", \"c\"]"),
        ("SUNION s t", "[\"a\", \"b\", \"c\", \"d\"]"),
        ("SDIFF s t", "[\"a\"]"),
        ("SINTERCARD 2 s t LIMIT 1", "1"),
        ("SINTERSTORE u s t", "2"),
        ("SMEMBERS u", "[\"b\", \"c\"]"),
        ("SDIFFSTORE u s s", "0"),
        ("EXISTS u", "0"),
        ("SMOVE s t a", "1"),
        ("SMOVE s t a", "0"),
        ("SREM s b x", "1"),
        ("SRANDMEMBER s", "\"c\""),
        ("SRANDMEMBER s -3", "[\"c\", \"c\", \"c\"]"),
        ("SPOP s", "\"c\""),
        ("EXISTS s", "0"),
        ("SPOP s", "nil"),
        ("SCARD t", "4"),
    ]);
    let mut client = served.client();
    let popped = client.ask("SPOP t 9");
    assert_eq!(popped.matches('"').count(), 8, "four members: {popped}");
    assert_eq!(client.ask("EXISTS t"), "0");
}

#[test]
fn sorted_sets() {
    let served = Served::start();
    served.client().check(&[
        ("ZADD z 1 a 2 b 3 c", "3"),
        ("ZADD z NX 9 a 4 d", "1"),
        ("ZADD z XX CH 5 d 9 x", "1"),
        ("ZADD z GT CH 4 d", "0"),
        ("ZADD z LT CH 4 d", "1"),
        ("ZADD z INCR 1.5 d", "\"5.5\""),
        ("ZADD z XX INCR 1 x", "nil"),
        ("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible"),
        ("ZADD z 1 a nan b", "-ERR value is not a valid float"),
        ("ZSCORE z d", "\"5.5\""),
        ("ZMSCORE z a x", "[\"1\", nil]"),
        ("ZINCRBY z -10 d", "\"-4.5\""),
        ("ZRANGE z 0 -1 WITHSCORES", "[\"d\", \"-4.5\", \"a\", \"1\", \"b\", \"2\", \"c\", \"3\"]"),
        ("ZREVRANGE z 0 1", "[\"c\", \"b\"]"),
        ("ZRANGE z 0 1 REV", "[\"c\", \"b\"]"),
        ("ZRANGEBYSCORE z (1 3", "[\"b\", \"c\"]"),
        ("ZRANGEBYSCORE z -inf +inf LIMIT 1 2", "[\"a\", \"b\"]"),
        ("ZREVRANGEBYSCORE z 2 -inf", "[\"b\", \"a\", \"d\"]"),
        ("ZRANGE z (3 1 BYSCORE REV", "[\"b\", \"a\"]"),
        ("ZCOUNT z 1 2", "2"),
        ("ZCOUNT z (1 (2", "0"),
        ("ZRANK z d", "0"),
        ("ZREVRANK z d", "3"),
        ("ZRANK z a WITHSCORE", "[1, \"1\"]"),
        ("ZRANK z x", "nil"),
        ("ZPOPMIN z", "[\"d\", \"-4.5\"]"),
        ("ZPOPMAX z 2", "[\"c\", \"3\", \"b\", \"2\"]"),
        ("ZCARD z", "1"),
        ("ZREM z a x", "1"),
        ("EXISTS z", "0"),
        ("ZADD l 0 a 0 b 0 c 0 d", "4"),
        ("ZMPOP 1 l MAX", "[\"l\", [[\"d\", \"0\"]]]"),
        ("ZADD l 0 d", "1"),
        ("ZRANGEBYLEX l [b (d", "[\"b\", \"c\"]"),
        ("ZRANGEBYLEX l - +", "[\"a\", \"b\", \"c\", \"d\"]"),
        ("ZRANGEBYLEX l + -", "[]"),
        ("ZRANGEBYLEX l [c [b", "[]"),
        ("ZRANGEBYLEX l (a + LIMIT 1 1", "[\"c\"]"),
        ("ZRANGEBYLEX l - + WITHSCORES", "-ERR syntax error"),
        ("ZREVRANGEBYLEX l + (b", "[\"d\", \"c\"]"),
        ("ZLEXCOUNT l - [c", "3"),
        ("ZREMRANGEBYLEX l [a [b", "2"),
        ("ZREMRANGEBYRANK l 0 0", "1"),
        ("ZREMRANGEBYSCORE l 0 0", "1"),
        ("EXISTS l", "0"),
        ("ZADD x 1 a 2 b", "2"),
        ("ZADD y 10 b 20 c", "2"),
        ("ZUNIONSTORE u 2 x y WEIGHTS 2 1", "3"),
        ("ZRANGE u 0 -1 WITHSCORES", "[\"a\", \"2\", \"b\", \"14\", \"c\", \"20\"]"),
        ("ZINTERSTORE u 2 x y AGGREGATE MAX", "1"),
        ("ZRANGE u 0 -1 WITHSCORES", "[\"b\", \"10\"]"),
        ("ZUNION 2 x y", "[\"a\", \"b\", \"c\"]"),
        ("ZSCAN x 0", "[\"0\", [\"a\", \"1\", \"b\", \"2\"]]"),
        ("ZADD inf +inf a -inf b", "2"),
        ("ZINCRBY inf -inf a", "-ERR resulting score is not a number (NaN)"),
        ("ZRANGE inf 0 -1 WITHSCORES", "[\"b\", \"-inf\", \"a\", \"inf\"]"),
    ]);
}

#[test]
fn version_three_has_types_of_its_own() {
    let served = Served::start();
    let mut client = served.client();
    assert!(client.ask("HELLO 3").starts_with("{\"server\", \"redis\""));
    client.check(&[
        ("GET nothing", "nil"),
        ("HSET h a 1", "1"),
        ("HGETALL h", "{\"a\", \"1\"}"),
        ("SADD s a", "1"),
        ("SMEMBERS s", "<\"a\">"),
        ("ZADD z 1.5 a", "1"),
        ("ZSCORE z a", "1.5"),
        ("ZRANGE z 0 -1 WITHSCORES", "[[\"a\", 1.5]]"),
        ("ZPOPMIN z", "[\"a\", 1.5]"),
        ("HRANDFIELD h 1 WITHVALUES", "[[\"a\", \"1\"]]"),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
    ]);
    assert!(client.ask("HELLO 2").starts_with("[\"server\""));
    client.check(&[("HGETALL h", "[\"a\", \"1\"]"), ("HRANDFIELD h 1 WITHVALUES", "[\"a\", \"1\"]")]);
}

#[test]
fn a_new_collection_has_a_generation_after_all_that_are_stored() {
    let served = Served::start();
    let mut client = served.client();
    assert_eq!(client.ask("SADD first a"), "1");
    let db = &served.host.db;
    let table = db.table("redis-0").unwrap().unwrap();
    let generation = |key: &str| {
        let record = db.get(&table, [b"\x01", key.as_bytes()].concat()).unwrap().unwrap();
        u64::from_be_bytes(record[18..26].try_into().unwrap())
    };
    // A server with a clock that is ahead by a day was here.
    let ahead = generation("first") + 24 * 3600 * 1_000_000;
    db.put(&table, [&[2], &ahead.to_be_bytes()[..], b"member"].concat(), "").unwrap();
    for command in ["SADD s a", "HSET h f v", "RPUSH l x", "ZADD z 1 x", "COPY s t", "SUNIONSTORE u s"] {
        assert_eq!(client.ask(command), "1", "{command}");
        let key = command.split(' ').nth(if command.starts_with("COPY") { 2 } else { 1 }).unwrap();
        assert!(generation(key) > ahead, "{command}");
    }
    assert_eq!(client.ask("SMEMBERS s"), "[\"a\"]");
}
