use crate::client::Served;

#[test]
fn strings_are_set_read_and_changed() {
    let served = Served::start();
    served.client().check(&[
        ("PING", "PONG"),
        ("PING x", "\"x\""),
        ("ECHO x", "\"x\""),
        ("GET a", "nil"),
        ("SET a 1", "OK"),
        ("GET a", "\"1\""),
        ("SET a 2 NX", "nil"),
        ("SET b 2 XX", "nil"),
        ("SET a 2 XX GET", "\"1\""),
        ("SET c 3 NX GET", "nil"),
        ("SET c 4 NX GET", "\"3\""),
        ("SET a 3 EX 100 KEEPTTL", "-ERR syntax error"),
        ("SET a 3 NX XX", "-ERR syntax error"),
        ("SET a 3 EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET a 3 EX x", "-ERR value is not an integer or out of range"),
        ("SET a 3 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("SETNX a 5", "0"),
        ("SETNX d 5", "1"),
        ("GETSET a 7", "\"2\""),
        ("GETDEL a", "\"7\""),
        ("GETDEL a", "nil"),
        ("MSET a 1 b 2", "OK"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("MGET a b nothing", "[\"1\", \"2\", nil]"),
        ("MSETNX x 1 a 2", "0"),
        ("EXISTS x a a", "2"),
        ("MSETNX x 1 y 2", "1"),
        ("INCR a", "2"),
        ("INCRBY a 40", "42"),
        ("DECR a", "41"),
        ("DECRBY a 1", "40"),
        ("INCRBY a 9223372036854775807", "-ERR increment or decrement would overflow"),
        ("DECRBY a -9223372036854775808", "-ERR decrement would overflow"),
        ("GET a", "\"40\""),
        ("INCRBYFLOAT a 0.5", "\"40.5\""),
        ("INCRBYFLOAT a inf", "-ERR increment would produce NaN or Infinity"),
        ("INCR a", "-ERR value is not an integer or out of range"),
        ("APPEND t Hello", "5"),
        ("APPEND t World", "10"),
        ("STRLEN t", "10"),
        ("STRLEN nothing", "0"),
        ("GETRANGE t 0 4", "\"Hello\""),
        ("GETRANGE t -5 -1", "\"World\""),
        ("GETRANGE t 5 1", "\"\""),
        ("SETRANGE t 5 XX", "10"),
        ("GET t", "\"HelloXXrld\""),
        ("SETRANGE t 12 Z", "13"),
        ("GET t", "\"HelloXXrld\\0\\0Z\""),
        ("SETRANGE t -1 Z", "-ERR offset is out of range"),
        ("SETRANGE t 100000000000 Z", "-ERR string exceeds maximum allowed size (67108864 bytes)"),
        ("SETBIT bits 9 1", "0"),
        ("SETBIT bits 9 1", "1"),
        ("GETBIT bits 9", "1"),
        ("GETBIT bits 900", "0"),
        ("STRLEN bits", "2"),
        ("SETBIT bits 0 1", "0"),
        ("BITCOUNT bits", "2"),
        ("BITCOUNT bits 1 1", "1"),
        ("BITCOUNT bits 1 9 BIT", "1"),
        ("BITCOUNT bits 1 8 BIT", "0"),
        ("BITCOUNT bits 0 -1 BIT", "2"),
        ("BITCOUNT bits 0 0 BIT", "1"),
        ("SETBIT bits 99999999999 1", "-ERR bit offset is not an integer or out of range"),
        ("TYPE t", "string"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("NOTHING a b", "-ERR unknown command 'NOTHING', with args beginning with: 'a' 'b' "),
    ]);
}

#[test]
fn bytes_and_long_values_pass_unchanged() {
    let served = Served::start();
    let mut client = served.client();
    let key: Vec<u8> = (0..=255).collect();
    let value: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8 % 100 + 20).collect();
    assert_eq!(client.ask_words(&[b"SET", &key, &value]), "OK");
    assert_eq!(client.ask_words(&[b"GET", &key]), format!("{:?}", String::from_utf8_lossy(&value)));
    assert_eq!(client.ask_words(&[b"STRLEN", &key]), "3000000");
    assert_eq!(client.ask("SET e mpty"), "OK");
    assert_eq!(client.ask_words(&[b"SET", b"", b""]), "OK");
    assert_eq!(client.ask_words(&[b"GET", b""]), "\"\"");
    assert_eq!(client.ask("DBSIZE"), "3");
    let too_long = vec![b'k'; 5000];
    let reply = client.ask_words(&[b"SET", &too_long, b"v"]);
    assert!(reply.contains("a key of 5001 bytes is too long"), "{reply}");
    assert_eq!(client.ask_words(&[b"MSET", b"first", b"1", &too_long, b"v"]), reply);
    assert_eq!(client.ask("GET first"), "nil", "a command that fails changes nothing");
}
