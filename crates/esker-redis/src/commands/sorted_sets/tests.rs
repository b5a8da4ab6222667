//! What the commands reply, do and tell, for collections in one record and in a tree of their own.

use super::element::by_score;
use crate::memory::Memory;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
const SYNTAX: &str = "-ERR syntax error|";
const NOT_INTEGER: &str = "-ERR value is not an integer or out of range|";
const NOT_FLOAT: &str = "-ERR value is not a valid float|";
const NOT_SCORES: &str = "-ERR min or max is not a float|";
const NOT_MEMBERS: &str = "-ERR min or max not valid string range item|";

/// A reply that is an array of bulk strings.
fn array(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let bulks: String = words.iter().map(|word| format!("${}|{word}|", word.len())).collect();
    format!("*{}|{bulks}", words.len())
}

fn bulk(word: &str) -> String {
    format!("${}|{word}|", word.len())
}

/// Asks line after line. What is expected is an array of words if it does not begin as a reply does.
fn check(memory: &mut Memory, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        let is_reply = expected.starts_with(['+', '-', ':', '$', '*']);
        let expected = if is_reply { (*expected).to_owned() } else { array(expected) };
        assert_eq!(memory.ask(line), expected, "{line}");
    }
}

fn version_3(memory: &mut Memory, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    String::from_utf8_lossy(&memory.reply(&words, true)).replace("\r\n", "|")
}

/// The events since the last look: their names and keys.
fn events(memory: &mut Memory) -> String {
    let events = std::mem::take(&mut memory.events);
    let told: Vec<String> = events
        .iter()
        .map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key)))
        .collect();
    told.join(", ")
}

/// A hundred members that no test has: `~0` to `~99`.
fn fill(memory: &mut Memory, key: &str) {
    let pairs: String = (0..100).map(|number| format!(" {number} ~{number}")).collect();
    assert_eq!(memory.ask(&format!("ZADD {key}{pairs}")), ":100|");
    assert!(memory.elements() >= 200);
}

fn empty_out(memory: &mut Memory, key: &str) {
    let members: String = (0..100).map(|number| format!(" ~{number}")).collect();
    assert_eq!(memory.ask(&format!("ZREM {key}{members}")), ":100|");
}

/// Asks the lines of `setup`, then `lines`, twice: with small collections, and with `z`, `y` and `l` in a tree of their
/// own. Nothing is left of them there when they are gone.
fn both(setup: &[&str], lines: &[(&str, &str)]) {
    for is_large in [false, true] {
        let mut memory = Memory::default();
        assert_eq!(memory.ask("SET string v"), "+OK|");
        let large: &[&str] = if is_large { &["z", "y", "l"] } else { &[] };
        for key in large {
            fill(&mut memory, key);
            assert_eq!(memory.ask(&format!("ZADD {key} 0 ~last")), ":1|");
        }
        for line in setup {
            assert!(memory.ask(line).starts_with([':', '$']), "{line}");
        }
        for key in large {
            empty_out(&mut memory, key);
            assert_eq!(memory.ask(&format!("ZREM {key} ~last")), ":1|");
        }
        assert_eq!(memory.elements() > 0, is_large && !setup.is_empty());
        check(&mut memory, lines);
        for key in ["z", "y", "l", "target"] {
            memory.ask(&format!("ZREMRANGEBYRANK {key} 0 -1"));
            assert_eq!(memory.ask(&format!("ZCARD {key}")), ":0|");
        }
        assert_eq!(memory.elements(), 0);
    }
}

#[test]
fn zadd_keeps_to_its_options() {
    both(
        &["ZADD z 1 a 2 b"],
        &[
            ("ZADD z 3 c 1 a", ":1|"),
            ("ZADD z CH 3 c 2 a 4 d", ":2|"),
            ("zadd z nx 9 a 9 e", ":1|"),
            ("ZADD z XX 9 f 5 e", ":0|"),
            ("ZADD z xx ch 9 f 6 e", ":1|"),
            ("ZADD z GT CH 1 e 1 g", ":1|"),
            ("ZADD z GT CH 7 e", ":1|"),
            ("ZADD z LT CH 8 e", ":0|"),
            ("ZADD z LT XX CH 6 e 1 h", ":1|"),
            ("ZADD z INCR 2.5 e", "$3|8.5|"),
            ("ZADD z INCR NX 1 e", "$-1|"),
            ("ZADD z INCR XX 1 none", "$-1|"),
            ("ZADD z INCR GT -1 e", "$-1|"),
            ("ZADD z INCR GT 0 e", "$-1|"),
            ("ZADD z INCR 0 e", "$3|8.5|"),
            ("ZADD z INCR LT -1 e", "$3|7.5|"),
            ("ZADD none XX 1 a", ":0|"),
            ("ZADD none XX INCR 1 a", "$-1|"),
            ("ZADD z 1 x 2 x 3 x", ":1|"),
            ("ZSCORE z x", "$1|3|"),
            ("ZRANGE z 0 -1 WITHSCORES", "g 1 a 2 b 2 c 3 x 3 d 4 e 7.5"),
        ],
    );
}

#[test]
fn zadd_refuses_what_redis_refuses() {
    let incompatible = "-ERR XX and NX options at the same time are not compatible|";
    let gt_lt_nx = "-ERR GT, LT, and/or NX options at the same time are not compatible|";
    both(
        &["ZADD z 1 a inf up"],
        &[
            ("ZADD z 1", "-ERR wrong number of arguments for 'zadd' command|"),
            ("ZADD z NX 1", SYNTAX),
            ("ZADD z 1 a 2", SYNTAX),
            ("ZADD z NX XX", SYNTAX),
            ("ZADD z NX XX 1 a", incompatible),
            ("ZADD z NX XX GT 1 a", incompatible),
            ("ZADD z NX GT 1 a", gt_lt_nx),
            ("ZADD z LT NX 1 a", gt_lt_nx),
            ("ZADD z LT GT 1 a", gt_lt_nx),
            ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair|"),
            ("ZADD z 5 a x b", NOT_FLOAT),
            ("ZADD z nan a", NOT_FLOAT),
            ("ZADD string x a", NOT_FLOAT),
            ("ZADD string 1 a", WRONG_TYPE),
            ("ZADD z INCR -inf up", "-ERR resulting score is not a number (NaN)|"),
            ("ZINCRBY z -inf up", "-ERR resulting score is not a number (NaN)|"),
            ("ZINCRBY z x a", NOT_FLOAT),
            ("ZINCRBY string 1 a", WRONG_TYPE),
            ("ZRANGE z 0 -1 WITHSCORES", "a 1 up inf"),
        ],
    );
}

#[test]
fn single_members_are_found_changed_and_removed() {
    both(
        &["ZADD z -1 a 0 b 0 c 2.5 d inf e"],
        &[
            ("ZCARD z", ":5|"),
            ("ZSCORE z d", "$3|2.5|"),
            ("ZSCORE z none", "$-1|"),
            ("ZSCORE none a", "$-1|"),
            ("ZMSCORE z e none a", "*3|$3|inf|$-1|$2|-1|"),
            ("ZMSCORE none a b", "*2|$-1|$-1|"),
            ("ZRANK z a", ":0|"),
            ("ZRANK z c", ":2|"),
            ("ZREVRANK z c", ":2|"),
            ("ZREVRANK z e", ":0|"),
            ("ZREVRANK z a", ":4|"),
            ("ZRANK z none", "$-1|"),
            ("ZRANK none a", "$-1|"),
            ("ZINCRBY z 3 a", "$1|2|"),
            ("ZINCRBY z 1e-1 new", "$19|0.10000000000000001|"),
            ("ZRANGE z 0 -1", "b c new a d e"),
            ("ZREM z a none a new", ":2|"),
            ("ZREM none a", ":0|"),
            ("ZADD z -0 b", ":0|"),
            ("ZADD z CH -0 new", ":1|"),
            ("ZSCORE z new", "$1|0|"),
            ("ZRANGE z 0 -1", "b c new d e"),
            ("ZREM z b c new d e", ":5|"),
            ("EXISTS z", ":0|"),
            ("ZCARD z", ":0|"),
            ("ZCARD string", WRONG_TYPE),
            ("ZSCORE string a", WRONG_TYPE),
            ("ZMSCORE string a", WRONG_TYPE),
            ("ZRANK string a", WRONG_TYPE),
            ("ZREM string a", WRONG_TYPE),
        ],
    );
}

#[test]
fn ranges_of_ranks_count_from_both_ends() {
    both(
        &["ZADD z 1 a 2 b 3 c 4 d"],
        &[
            ("ZRANGE z 0 -1", "a b c d"),
            ("ZRANGE z 1 2", "b c"),
            ("ZRANGE z -2 -1", "c d"),
            ("ZRANGE z -100 100", "a b c d"),
            ("ZRANGE z 4 5", "*0|"),
            ("ZRANGE z 2 1", "*0|"),
            ("ZRANGE z -1 -2", "*0|"),
            ("ZRANGE z 0 -5", "*0|"),
            ("ZRANGE z -9223372036854775808 9223372036854775807", "a b c d"),
            ("ZRANGE z 9223372036854775807 -9223372036854775808", "*0|"),
            ("ZRANGE z 0 1 rev", "d c"),
            ("ZRANGE z -1 -1 REV WITHSCORES", "a 1"),
            ("ZREVRANGE z 1 -1 WITHSCORES", "c 3 b 2 a 1"),
            ("ZREVRANGE z 0 0", "d"),
            ("ZRANGE z 0 0 LIMIT 0 -1", "a"),
            ("ZRANGE none 0 -1", "*0|"),
            (
                "ZRANGE z 0 -1 LIMIT 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX|",
            ),
            ("ZRANGE z 0 x", NOT_INTEGER),
            ("ZRANGE z 0 9223372036854775808", NOT_INTEGER),
            ("ZRANGE z 0 1 BAD", SYNTAX),
            ("ZRANGE z 0 1 REV REV", SYNTAX),
            ("ZRANGE z 0 1 BYSCORE BYLEX", SYNTAX),
            ("ZRANGE z 0 1 BYSCORE LIMIT 0", SYNTAX),
            ("ZRANGE z 0 1 BYSCORE LIMIT x 1", NOT_INTEGER),
            ("ZREVRANGE z 0 1 REV", SYNTAX),
            ("ZREVRANGE z 0 1 BYSCORE", SYNTAX),
            ("ZRANGE string 0 1", WRONG_TYPE),
            ("ZRANGE string x 1", NOT_INTEGER),
        ],
    );
}

#[test]
fn ranges_of_scores_know_their_ends() {
    both(
        &["ZADD z -inf a 1 b 1 c 2 d 3.5 e inf f"],
        &[
            ("ZRANGEBYSCORE z -inf +inf", "a b c d e f"),
            ("ZRANGEBYSCORE z 1 2 WITHSCORES", "b 1 c 1 d 2"),
            ("ZRANGEBYSCORE z (1 2", "d"),
            ("ZRANGEBYSCORE z 1 (2", "b c"),
            ("ZRANGEBYSCORE z (-inf (inf", "b c d e"),
            ("ZRANGEBYSCORE z 2 1", "*0|"),
            ("ZRANGEBYSCORE z (1 (1", "*0|"),
            ("ZRANGEBYSCORE z 1 1", "b c"),
            ("ZRANGEBYSCORE z -inf inf limit 1 2", "b c"),
            ("ZRANGEBYSCORE z -inf inf WITHSCORES LIMIT 4 -1", "e 3.5 f inf"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 6 1", "*0|"),
            ("ZRANGEBYSCORE z -inf inf LIMIT -1 2", "*0|"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 0 0", "*0|"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 9223372036854775807 9223372036854775807", "*0|"),
            ("ZREVRANGEBYSCORE z 2 1", "d c b"),
            ("ZREVRANGEBYSCORE z +inf -inf LIMIT 1 2", "e d"),
            ("ZREVRANGEBYSCORE z 1 2", "*0|"),
            ("ZRANGE z 1 2 BYSCORE", "b c d"),
            ("ZRANGE z (2 -inf REV BYSCORE LIMIT 0 2 WITHSCORES", "c 1 b 1"),
            ("ZCOUNT z -inf inf", ":6|"),
            ("ZCOUNT z (1 3.5", ":2|"),
            ("ZCOUNT z (0x1 0x1.cp1", ":2|"),
            ("ZCOUNT z 0x 1", NOT_SCORES),
            ("ZCOUNT z 3 2", ":0|"),
            ("ZCOUNT none 0 1", ":0|"),
            ("ZRANGEBYSCORE z x 1", NOT_SCORES),
            ("ZRANGEBYSCORE z 1 nan", NOT_SCORES),
            ("ZRANGEBYSCORE z x 1 BAD", SYNTAX),
            ("ZRANGEBYSCORE z 0 1 REV", SYNTAX),
            ("ZCOUNT string x 1", NOT_SCORES),
            ("ZCOUNT string 0 1", WRONG_TYPE),
            ("ZRANGEBYSCORE string 0 1", WRONG_TYPE),
        ],
    );
}

#[test]
fn ranges_of_members_know_their_ends() {
    both(
        &["ZADD l 0 alpha 0 bar 0 cool 0 down 0 '' 0 foo"],
        &[
            ("ZRANGEBYLEX l - (bar", "*2|$0||$5|alpha|"),
            ("ZRANGEBYLEX l [bar [cool", "bar cool"),
            ("ZRANGEBYLEX l (bar (down", "cool"),
            ("ZRANGEBYLEX l (bar +", "cool down foo"),
            ("ZRANGEBYLEX l + -", "*0|"),
            ("ZRANGEBYLEX l [aaa +  LIMIT 1 2", "bar cool"),
            ("ZREVRANGEBYLEX l + - LIMIT 0 2", "foo down"),
            ("ZREVRANGEBYLEX l (down [bar", "cool bar"),
            ("ZREVRANGEBYLEX l - +", "*0|"),
            ("ZRANGE l [bar [cool BYLEX", "bar cool"),
            ("ZRANGE l + (cool BYLEX REV", "foo down"),
            ("ZLEXCOUNT l - +", ":6|"),
            ("ZLEXCOUNT l ( +", ":5|"),
            ("ZLEXCOUNT l [b [d", ":2|"),
            ("ZLEXCOUNT none - +", ":0|"),
            ("ZRANGEBYLEX l a +", NOT_MEMBERS),
            ("ZLEXCOUNT string - b", NOT_MEMBERS),
            ("ZLEXCOUNT string - +", WRONG_TYPE),
            (
                "ZRANGE l - + BYLEX WITHSCORES",
                "-ERR syntax error, WITHSCORES not supported in combination with BYLEX|",
            ),
            ("ZREMRANGEBYLEX l [b (d", ":2|"),
            ("ZREMRANGEBYLEX l z -", NOT_MEMBERS),
            ("ZREMRANGEBYLEX l [x [z", ":0|"),
            ("ZRANGE l 1 -1", "alpha down foo"),
        ],
    );
}

#[test]
fn ranges_are_stored() {
    both(
        &["ZADD z 1 a 2 b 3 c", "ZADD y 1 old"],
        &[
            ("ZRANGESTORE target z 0 1", ":2|"),
            ("ZRANGE target 0 -1 WITHSCORES", "a 1 b 2"),
            ("ZRANGESTORE y z (1 inf BYSCORE LIMIT 1 1", ":1|"),
            ("ZRANGE y 0 -1 WITHSCORES", "c 3"),
            ("ZRANGESTORE y z + - BYLEX REV", ":3|"),
            ("EXPIRE y 100", ":1|"),
            ("ZRANGESTORE y y 0 0 REV", ":1|"),
            ("ZRANGE y 0 -1", "c"),
            ("TTL y", ":-1|"),
            ("ZRANGESTORE string z 0 -1", ":3|"),
            ("ZCARD string", ":3|"),
            ("SET string v", "+OK|"),
            ("ZRANGESTORE target none 0 -1", ":0|"),
            ("EXISTS target", ":0|"),
            ("ZRANGESTORE target z 0 -1 WITHSCORES", SYNTAX),
            ("ZRANGESTORE target string 0 -1", WRONG_TYPE),
            ("ZRANGESTORE target z x -1", NOT_INTEGER),
        ],
    );
}

#[test]
fn ranges_are_removed() {
    both(
        &["ZADD z 1 a 2 b 3 c 4 d 5 e 6 f", "ZADD y 1 a"],
        &[
            ("ZREMRANGEBYRANK z 0 0", ":1|"),
            ("ZREMRANGEBYRANK z -1 -1", ":1|"),
            ("ZREMRANGEBYRANK z 10 20", ":0|"),
            ("ZREMRANGEBYSCORE z (2 3", ":1|"),
            ("ZREMRANGEBYSCORE z 100 inf", ":0|"),
            ("ZRANGE z 0 -1", "b d e"),
            ("ZREMRANGEBYRANK z 0 -1", ":3|"),
            ("EXISTS z", ":0|"),
            ("ZREMRANGEBYSCORE y -inf inf", ":1|"),
            ("EXISTS y", ":0|"),
            ("ZREMRANGEBYRANK none 0 1", ":0|"),
            ("ZREMRANGEBYRANK string 0 x", NOT_INTEGER),
            ("ZREMRANGEBYRANK string 0 1", WRONG_TYPE),
            ("ZREMRANGEBYSCORE string 0 x", NOT_SCORES),
        ],
    );
}

#[test]
fn members_are_popped_from_both_ends() {
    let not_positive = "-ERR value is out of range, must be positive|";
    both(
        &["ZADD z 1 a 2 b 3 c 4 d 5 e", "ZADD y 1 v 2 w 3 x"],
        &[
            ("ZPOPMIN z", "a 1"),
            ("ZPOPMAX z", "e 5"),
            ("ZPOPMIN z 0", "*0|"),
            ("ZPOPMAX z 2", "d 4 c 3"),
            ("ZPOPMIN none", "*0|"),
            ("ZPOPMIN none 3", "*0|"),
            ("ZPOPMIN z -1", not_positive),
            ("ZPOPMIN z x", not_positive),
            ("ZPOPMIN string 0", WRONG_TYPE),
            ("ZPOPMIN z 1 1", SYNTAX),
            ("BZPOPMIN none z 0", "z b 2"),
            ("BZPOPMAX z y 0", "y x 3"),
            ("BZPOPMAX none string y 1", WRONG_TYPE),
            ("BZPOPMIN y string 1", "y v 1"),
            ("BZPOPMIN y x", "-ERR timeout is not a float or out of range|"),
            ("BZPOPMIN y -1", "-ERR timeout is negative|"),
            ("ZPOPMAX y 9223372036854775807", "w 2"),
            ("EXISTS z y", ":0|"),
        ],
    );
}

#[test]
fn commands_that_may_wait_append_nothing_without_members() {
    let mut memory = Memory::default();
    for line in ["BZPOPMIN a b 1.5", "BZPOPMAX a 0", "BZMPOP 0 2 a b MIN COUNT 2"] {
        assert_eq!(memory.ask(line), "", "{line}");
        assert_eq!(version_3(&mut memory, line), "", "{line}");
    }
}

#[test]
fn the_first_key_with_members_loses_many() {
    let no_keys = "-ERR numkeys should be greater than 0|";
    let no_count = "-ERR count should be greater than 0|";
    both(
        &["ZADD z 1 a 2 b 3 c", "ZADD y 4 d"],
        &[
            ("ZMPOP 2 none z MIN", "*2|$1|z|*1|*2|$1|a|$1|1|"),
            ("ZMPOP 2 z y max count 10", "*2|$1|z|*2|*2|$1|c|$1|3|*2|$1|b|$1|2|"),
            ("BZMPOP 1 2 z y MIN COUNT 2", "*2|$1|y|*1|*2|$1|d|$1|4|"),
            ("ZMPOP 2 z y MIN", "*-1|"),
            ("ZMPOP 0 z MIN", no_keys),
            ("ZMPOP x z MIN", no_keys),
            ("ZMPOP 2 z MIN", SYNTAX),
            ("ZMPOP 4611686018427387904 z MIN", SYNTAX),
            ("ZMPOP 1 z BAD", SYNTAX),
            ("ZMPOP 1 z MIN COUNT", SYNTAX),
            ("ZMPOP 1 z MIN COUNT 0", no_count),
            ("ZMPOP 1 z MIN COUNT x", no_count),
            ("ZMPOP 1 z MIN COUNT 1 COUNT 2", SYNTAX),
            ("ZMPOP 2 none string MIN", WRONG_TYPE),
            ("BZMPOP x 0 z MIN", no_keys),
            ("BZMPOP x 1 string MIN", "-ERR timeout is not a float or out of range|"),
            ("BZMPOP -1 1 string MIN", "-ERR timeout is negative|"),
        ],
    );
}

#[test]
fn algebra_aggregates_and_weighs() {
    both(
        &["ZADD z 1 a 2 b 3 c", "ZADD y 10 b 20 c 30 d", "SADD set b x"],
        &[
            ("ZUNION 2 z y WITHSCORES", "a 1 b 12 c 23 d 30"),
            ("ZUNION 2 z none", "a b c"),
            ("ZUNION 3 z y set WEIGHTS 2 1 -5 WITHSCORES", "x -5 a 2 b 9 c 26 d 30"),
            ("ZUNION 2 z y AGGREGATE MIN WITHSCORES", "a 1 b 2 c 3 d 30"),
            ("ZUNION 2 z y WITHSCORES aggregate max", "a 1 b 10 c 20 d 30"),
            ("ZUNION 2 z z WITHSCORES", "a 2 b 4 c 6"),
            ("ZINTER 2 z y WITHSCORES", "b 12 c 23"),
            ("ZINTER 3 z y set WITHSCORES", "b 13"),
            ("ZINTER 2 z y WEIGHTS 1 0.5 AGGREGATE MAX WITHSCORES", "b 5 c 10"),
            ("ZINTER 2 z none", "*0|"),
            ("ZDIFF 2 z y WITHSCORES", "a 1"),
            ("ZDIFF 1 z", "a b c"),
            ("ZDIFF 2 z set", "a c"),
            ("ZDIFF 2 z z", "*0|"),
            ("ZDIFF 2 none z", "*0|"),
            ("ZDIFF 2 set z WITHSCORES", "x 1"),
            ("ZINTERCARD 2 z y", ":2|"),
            ("ZINTERCARD 2 z y LIMIT 1", ":1|"),
            ("ZINTERCARD 2 z y limit 0", ":2|"),
            ("ZINTERCARD 2 z none", ":0|"),
            ("ZUNIONSTORE target 2 z y", ":4|"),
            ("ZRANGE target 0 -1 WITHSCORES", "a 1 b 12 c 23 d 30"),
            ("ZINTERSTORE target 2 z y AGGREGATE MIN", ":2|"),
            ("ZRANGE target 0 -1 WITHSCORES", "b 2 c 3"),
            ("ZDIFFSTORE target 2 z y", ":1|"),
            ("ZRANGE target 0 -1 WITHSCORES", "a 1"),
            ("ZUNIONSTORE z 2 z y WEIGHTS 1 2", ":4|"),
            ("ZRANGE z 0 -1 WITHSCORES", "a 1 b 22 c 43 d 60"),
            ("ZDIFFSTORE z 2 z z", ":0|"),
            ("EXISTS z", ":0|"),
            ("DEL set", ":1|"),
        ],
    );
}

#[test]
fn algebra_knows_infinities() {
    both(
        &["ZADD z inf a", "ZADD y -inf a", "ZADD l 7 a"],
        &[
            ("ZUNION 2 z y WITHSCORES", "a 0"),
            ("ZINTER 2 z y WITHSCORES", "a 0"),
            ("ZUNION 1 z WEIGHTS 0 WITHSCORES", "a 0"),
            ("ZINTER 2 z l WEIGHTS 0 1 WITHSCORES", "a 7"),
            ("ZINTER 2 l z WEIGHTS 1 0 WITHSCORES", "a 0"),
            ("ZINTER 2 l z WEIGHTS 1 0 AGGREGATE MIN WITHSCORES", "a 7"),
            ("ZUNION 2 l z WEIGHTS 1 0 AGGREGATE MIN WITHSCORES", "a 0"),
        ],
    );
}

#[test]
fn algebra_refuses_what_redis_refuses() {
    let no_keys = |name: &str| format!("-ERR at least 1 input key is needed for '{name}' command|");
    let limit = "-ERR LIMIT can't be negative|";
    both(
        &["ZADD z 1 a"],
        &[
            ("ZUNION 0 z", no_keys("zunion").as_str()),
            ("ZUnionStore target -1 z", &no_keys("zunionstore")),
            ("ZINTERCARD 0 z", &no_keys("zintercard")),
            ("ZUNION x z", NOT_INTEGER),
            ("ZUNION 2 z", SYNTAX),
            ("ZUNION 4611686018427387904 z", SYNTAX),
            ("ZUNION 1 string BAD", WRONG_TYPE),
            ("ZUNION 1 z BAD", SYNTAX),
            ("ZUNION 1 z WEIGHTS", SYNTAX),
            ("ZUNION 1 z WEIGHTS x", "-ERR weight value is not a float|"),
            ("ZUNION 1 z AGGREGATE", SYNTAX),
            ("ZUNION 1 z AGGREGATE AVG", SYNTAX),
            ("ZUNIONSTORE target 1 z WITHSCORES", SYNTAX),
            ("ZDIFF 1 z WEIGHTS 1", SYNTAX),
            ("ZDIFF 1 z AGGREGATE SUM", SYNTAX),
            ("ZINTER 1 z LIMIT 1", SYNTAX),
            ("ZINTERCARD 1 z LIMIT", SYNTAX),
            ("ZINTERCARD 1 z WITHSCORES", SYNTAX),
            ("ZINTERCARD 1 z LIMIT -1", limit),
            ("ZINTERCARD 1 z LIMIT x", limit),
            ("ZINTERCARD 1 string LIMIT x", WRONG_TYPE),
        ],
    );
}

#[test]
fn chance_keeps_to_counts() {
    for is_large in [false, true] {
        let mut memory = Memory::default();
        let members = if is_large { 200 } else { 20 };
        let pairs: String = (0..members).map(|number| format!(" {number} m{number}")).collect();
        memory.ask(&format!("ZADD z{pairs}"));
        let mut ask = |line: &str| -> Vec<String> {
            let reply = memory.ask(line);
            let mut found: Vec<String> =
                reply.split('|').filter(|word| word.starts_with('m')).map(str::to_owned).collect();
            let begin = format!("*{}|", found.len());
            assert!(line.ends_with('z') || reply.starts_with(&begin), "{line}: {reply}");
            found.sort();
            found
        };
        assert_eq!(ask("ZRANDMEMBER z").len(), 1);
        assert_eq!(ask("ZRANDMEMBER z 0").len(), 0);
        for (count, expected) in [(5, 5), (19, 19), (1000, members), (i64::MAX, members)] {
            let mut found = ask(&format!("ZRANDMEMBER z {count}"));
            found.dedup();
            assert_eq!(found.len(), expected, "{count}");
        }
        for count in [5, 1000] {
            assert_eq!(ask(&format!("ZRANDMEMBER z -{count}")).len(), count);
        }
        // Every member comes some time.
        let mut seen = ask("ZRANDMEMBER z -10000");
        seen.dedup();
        assert_eq!(seen.len(), members);
        let mut seen: Vec<String> = (0..200).flat_map(|_| ask("ZRANDMEMBER z 10")).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), members);
    }
    let mut memory = Memory::default();
    check(
        &mut memory,
        &[
            ("ZADD one 1.5 m", ":1|"),
            ("SET string v", "+OK|"),
            ("ZRANDMEMBER one", "$1|m|"),
            ("ZRANDMEMBER one 3 withscores", "m 1.5"),
            ("ZRANDMEMBER one -2 WITHSCORES", "m 1.5 m 1.5"),
            ("ZRANDMEMBER none", "$-1|"),
            ("ZRANDMEMBER none 3", "*0|"),
            ("ZRANDMEMBER none -9223372036854775807", "*0|"),
            ("ZRANDMEMBER one x", NOT_INTEGER),
            ("ZRANDMEMBER one 1 BAD", SYNTAX),
            ("ZRANDMEMBER one 1 WITHSCORES BAD", SYNTAX),
            ("ZRANDMEMBER one -9223372036854770000 WITHSCORES", "-ERR value is out of range|"),
            (
                "ZRANDMEMBER one -4611686018427387904",
                "-ERR value is out of range, the reply would be too long|",
            ),
            (
                "ZRANDMEMBER one -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807|",
            ),
            ("ZRANDMEMBER string", WRONG_TYPE),
            ("ZRANDMEMBER string 1", WRONG_TYPE),
        ],
    );
}

#[test]
fn zscan_sees_each_member_once() {
    let mut memory = Memory::default();
    let pairs: String = (0..1000).map(|number| format!(" {number}.5 m{number}")).collect();
    memory.ask(&format!("ZADD z{pairs}"));
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = memory.ask(&format!("ZSCAN z {cursor} COUNT 7"));
        let words: Vec<&str> = reply.split('|').collect();
        cursor = words[2].to_owned();
        // The words of the array, behind its length: each second one is a length.
        let array: Vec<&str> = words[4..].chunks(2).filter_map(|chunk| chunk.get(1).copied()).collect();
        for pair in array.chunks(2) {
            assert_eq!(pair[1], format!("{}.5", &pair[0][1..]));
            seen.push(pair[0].to_owned());
        }
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert!(calls >= 2, "{calls}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1000);
    check(
        &mut memory,
        &[
            ("ZADD small 1 a 2 b 3 ab", ":3|"),
            ("SET string v", "+OK|"),
            ("ZSCAN small 0 MATCH a* COUNT 1", "*2|$1|0|*4|$1|a|$1|1|$2|ab|$1|3|"),
            ("ZSCAN none 0 BAD", "*2|$1|0|*0|"),
            ("ZSCAN none x", "-ERR invalid cursor|"),
            ("ZSCAN small 0 BAD", SYNTAX),
            ("ZSCAN small 0 COUNT 0", SYNTAX),
            ("ZSCAN string 0 BAD", WRONG_TYPE),
        ],
    );
    assert_eq!(version_3(&mut memory, "ZSCAN small 0 MATCH b"), "*2|$1|0|*2|$1|b|$1|2|");
}

#[test]
fn version_3_has_numbers_and_pairs() {
    let mut memory = Memory::default();
    memory.ask("ZADD z 1 a 2.5 b inf c -inf d");
    memory.ask("ZADD y 1 a");
    for (line, expected) in [
        ("ZADD z INCR 1 b", ",3.5|"),
        ("ZADD z NX INCR 1 b", "_|"),
        ("ZINCRBY z 1 b", ",4.5|"),
        ("ZSCORE z c", ",inf|"),
        ("ZSCORE z none", "_|"),
        ("ZMSCORE z d none", "*2|,-inf|_|"),
        ("ZRANK z none", "_|"),
        ("ZRANGE z 0 1 WITHSCORES", "*2|*2|$1|d|,-inf|*2|$1|a|,1|"),
        ("ZRANGE z 0 0", "*1|$1|d|"),
        ("ZREVRANGEBYSCORE z 5 2 WITHSCORES", "*1|*2|$1|b|,4.5|"),
        ("ZUNION 1 y WITHSCORES", "*1|*2|$1|a|,1|"),
        ("ZRANDMEMBER y 1 WITHSCORES", "*1|*2|$1|a|,1|"),
        ("ZRANDMEMBER y -1 WITHSCORES", "*1|*2|$1|a|,1|"),
        ("ZRANDMEMBER none", "_|"),
        ("ZPOPMIN z", "*2|$1|d|,-inf|"),
        ("ZPOPMAX z 1", "*1|*2|$1|c|,inf|"),
        ("ZPOPMIN none", "*0|"),
        ("BZPOPMIN y 0", "*3|$1|y|$1|a|,1|"),
        ("ZMPOP 1 z MAX COUNT 2", "*2|$1|z|*2|*2|$1|b|,4.5|*2|$1|a|,1|"),
        ("ZMPOP 1 z MAX", "_|"),
    ] {
        assert_eq!(version_3(&mut memory, line), expected, "{line}");
    }
}

#[test]
fn events_are_those_of_redis() {
    for is_large in [false, true] {
        let mut memory = Memory::default();
        if is_large {
            fill(&mut memory, "z");
        }
        memory.ask("ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h");
        if is_large {
            empty_out(&mut memory, "z");
        }
        memory.ask("SET string v");
        events(&mut memory);
        for (line, expected) in [
            ("ZADD z 1 a", ""),
            ("ZADD z 1.5 a", "zadd z"),
            ("ZADD new 1 a", "new new, zadd new"),
            ("ZINCRBY z 0 a", ""),
            ("ZINCRBY z 1 a", "zincr z"),
            ("ZADD z INCR 1 a", "zincr z"),
            ("ZADD z XX INCR 1 none", ""),
            ("ZREM z none", ""),
            ("ZREM z a none", "zrem z"),
            ("ZREM new a", "zrem new, del new"),
            ("ZPOPMIN z 2", "zpopmin z"),
            ("ZPOPMIN z 0", ""),
            ("ZPOPMAX z", "zpopmax z"),
            ("ZREMRANGEBYRANK z 0 0", "zremrangebyrank z"),
            ("ZREMRANGEBYSCORE z 100 200", ""),
            ("ZREMRANGEBYSCORE z 5 5", "zremrangebyscore z"),
            ("ZREMRANGEBYLEX z [f [f", "zremrangebylex z"),
            ("ZRANGE z 0 -1", ""),
            ("ZRANGE none 0 -1", "keymiss none"),
            ("ZRANGESTORE target z 0 -1", "new target, zrangestore target"),
            ("ZUNIONSTORE target 2 z none", "keymiss none, zunionstore target"),
            ("ZINTERSTORE target 1 z", "zinterstore target"),
            ("ZDIFFSTORE target 1 z", "zdiffstore target"),
            ("ZDIFFSTORE target 2 z z", "del target"),
            ("ZDIFFSTORE target 2 z z", ""),
            ("ZUNION 2 z string", ""),
            ("BZPOPMIN z 0", "zpopmin z, del z"),
            ("BZPOPMIN z 0", ""),
        ] {
            memory.ask(line);
            assert_eq!(events(&mut memory), expected, "{line}");
        }
        assert_eq!(memory.elements(), 0);
    }
}

#[test]
fn expiry_is_kept_by_changes_and_dropped_by_stores() {
    both(
        &["ZADD z 1 a 2 b 3 c", "ZADD y 1 a"],
        &[
            ("EXPIRE z 100", ":1|"),
            ("ZADD z 4 d", ":1|"),
            ("ZINCRBY z 1 a", "$1|2|"),
            ("ZREM z d", ":1|"),
            ("ZPOPMIN z", "a 2"),
            ("TTL z", ":100|"),
            ("ZUNIONSTORE z 2 z y", ":3|"),
            ("TTL z", ":-1|"),
        ],
    );
    let mut memory = Memory::default();
    fill(&mut memory, "z");
    memory.ask("EXPIRE z 100");
    memory.now_us += 100_000_000;
    check(
        &mut memory,
        &[
            ("ZCARD z", ":0|"),
            ("ZRANGE z 0 -1", "*0|"),
            ("ZSCORE z ~1", "$-1|"),
            ("ZADD z XX 1 ~1", ":0|"),
            ("ZADD z 1 a", ":1|"),
            ("TTL z", ":-1|"),
            ("ZRANGE z 0 -1", "a"),
        ],
    );
}

#[test]
fn large_sorted_sets_are_as_a_sorted_list() {
    let mut memory = Memory::default();
    let count = 500_i64;
    // Scores that repeat, so that members decide too.
    let mut expected: Vec<(i64, String)> =
        (0..count).map(|number| (number * 7919 % 100 - 50, format!("m{number:03}"))).collect();
    for chunk in expected.chunks(37) {
        let pairs: String = chunk.iter().map(|(score, member)| format!(" {score} {member}")).collect();
        assert_eq!(memory.ask(&format!("ZADD z{pairs}")), format!(":{}|", chunk.len()));
    }
    assert_eq!(memory.elements() as i64, 2 * count);
    expected.sort();
    let members = |some: &[(i64, String)]| {
        array(&some.iter().map(|(_, member)| member.as_str()).collect::<Vec<_>>().join(" "))
    };
    for (first, last) in [(0, 0), (0, 9), (3, 250), (240, 260), (250, 499), (490, 499), (499, 499)] {
        let some = &expected[first..=last];
        assert_eq!(memory.ask(&format!("ZRANGE z {first} {last}")), members(some));
        let (from_end, to_end) = (first as i64 - count, last as i64 - count);
        assert_eq!(memory.ask(&format!("ZRANGE z {from_end} {to_end}")), members(some));
        let reversed: Vec<(i64, String)> = some.iter().rev().cloned().collect();
        let (begin, end) = (count - 1 - last as i64, count - 1 - first as i64);
        assert_eq!(memory.ask(&format!("ZREVRANGE z {begin} {end}")), members(&reversed));
    }
    for (rank, (score, member)) in expected.iter().enumerate().step_by(17) {
        assert_eq!(memory.ask(&format!("ZRANK z {member}")), format!(":{rank}|"));
        assert_eq!(memory.ask(&format!("ZREVRANK z {member}")), format!(":{}|", count as usize - 1 - rank));
        assert_eq!(memory.ask(&format!("ZSCORE z {member}")), bulk(&score.to_string()));
        let below = expected.iter().filter(|(other, _)| other < score).count();
        assert_eq!(memory.ask(&format!("ZCOUNT z -inf ({score}")), format!(":{below}|"));
    }
    assert_eq!(memory.ask("ZDIFFSTORE y 1 z"), ":500|");
    assert_eq!(memory.ask("ZINTERCARD 2 y z"), ":500|");
    assert_eq!(memory.ask("ZREMRANGEBYSCORE z -inf 48"), ":495|");
    assert_eq!(memory.ask("ZDIFF 2 y z"), members(&expected[..495]));
    assert_eq!(memory.ask("ZDIFF 2 z y"), "*0|");
    assert_eq!(memory.ask("ZPOPMIN z 5"), {
        let pairs: Vec<String> =
            expected[495..].iter().map(|(score, member)| format!("{member} {score}")).collect();
        array(&pairs.join(" "))
    });
    assert_eq!(memory.ask("ZPOPMAX y 500").split('|').next(), Some("*1000"));
    assert_eq!(memory.elements(), 0);
}

#[test]
fn a_command_that_fails_leaves_nothing() {
    let mut memory = Memory::default();
    fill(&mut memory, "z");
    memory.ask("SET string v");
    events(&mut memory);
    let elements = memory.elements();
    for line in
        ["ZADD z 1 a 2 b x c", "ZUNIONSTORE z 2 z string", "ZINCRBY z nan ~1", "ZRANGESTORE z string 0 1"]
    {
        assert!(memory.ask(line).starts_with('-'), "{line}");
        assert_eq!(events(&mut memory), "", "{line}");
    }
    assert_eq!(memory.elements(), elements);
    assert_eq!(memory.ask("ZCARD z"), ":100|");
}

/// The bounds in the attributes of `z`, which has at least 64 members: where its elements begin, and what is behind them.
fn bounds(memory: &Memory) -> (Vec<u8>, Vec<u8>) {
    let attributes = memory.attributes("z");
    // The kind, the number of entries, the generation.
    let mut rest = attributes.get(1 + 2 + 8..).unwrap();
    let mut bound = || {
        let Some((len, behind)) = rest.split_first() else { return Vec::new() };
        let (bound, behind) = behind.split_at(usize::from(*len));
        rest = behind;
        bound.to_vec()
    };
    (bound(), bound())
}

/// What goes at an end is not passed again by those who come to it next.
#[test]
fn bounds_follow_what_goes() {
    let mut memory = Memory::default();
    let element = |number: u32| by_score(f64::from(number), format!("~{number}").as_bytes()).to_vec();
    fill(&mut memory, "z");
    assert_eq!(bounds(&memory), (Vec::new(), Vec::new()), "none yet");
    // They may be the first and the last member, or what was there last.
    memory.ask("ZPOPMIN z");
    assert!((element(0)..=element(1)).contains(&bounds(&memory).0));
    memory.ask("ZPOPMIN z 3");
    assert!((element(3)..=element(4)).contains(&bounds(&memory).0));
    memory.ask("ZPOPMAX z 2");
    let (lower, upper) = bounds(&memory);
    assert!((element(3)..=element(4)).contains(&lower));
    assert!(element(97) < upper && upper < element(99));
    // Beyond them something comes.
    memory.ask("ZADD z 1 new 200 last");
    let (lower, upper) = bounds(&memory);
    assert!(lower <= by_score(1.0, b"new").to_vec() && upper > by_score(200.0, b"last").to_vec());
    assert_eq!(memory.ask("ZRANGE z 0 0"), array("new"));
    assert_eq!(memory.ask("ZRANGE z -1 -1"), array("last"));
    // What is taken away one by one is noticed soon: at times, somebody looks.
    memory.ask("ZREM z new");
    (4..30).for_each(|number| assert_eq!(memory.ask(&format!("ZREM z ~{number}")), ":1|"));
    assert!(bounds(&memory).0 >= element(10), "{:?}", bounds(&memory).0);
    // All at once is noticed at once.
    memory.ask("ZREMRANGEBYSCORE z -inf 33");
    assert!((element(33)..=element(34)).contains(&bounds(&memory).0));
    // Members beyond what a bound can have.
    let long = "x".repeat(300);
    memory.ask(&format!("ZADD z -5 {long}a -5 {long}b"));
    memory.ask("ZPOPMIN z");
    assert_eq!(memory.ask("ZRANGE z 0 0"), array(&format!("{long}b")));
    memory.ask(&format!("ZADD z -5 {long}0"));
    assert_eq!(memory.ask("ZRANGE z 0 1"), array(&format!("{long}0 {long}b")));
}

/// Random changes at and near the ends, beside a set that must agree.
#[test]
fn a_sorted_set_that_is_a_queue_agrees_with_a_model() {
    for seed in test_kit::seeds(20) {
        let mut rng = test_kit::Rng::new(seed);
        let mut below = |bound: u64| rng.below(bound);
        let mut memory = Memory::default();
        memory.reads_in_memory = (seed % 3 == 0).then_some(40);
        let mut model = std::collections::BTreeMap::<String, i64>::new();
        for number in 0..200 {
            memory.ask(&format!("ZADD z {number} m{number}"));
            model.insert(format!("m{number}"), number);
        }
        for step in 0..1500 {
            let mut order: Vec<(i64, String)> =
                model.iter().map(|(member, score)| (*score, member.clone())).collect();
            order.sort();
            let end = if below(2) == 0 { 0 } else { order.len() - 1 };
            let near = end.abs_diff(below(4) as usize).min(order.len() - 1);
            let long = "y".repeat(70 * below(2) as usize);
            let line = match below(if order.len() < 120 { 4 } else { 9 }) {
                0..4 => {
                    let (score, member) = (below(400) as i64 - 100, format!("{long}m{}", below(300)));
                    model.insert(member.clone(), score);
                    format!("ZADD z {score} {member}")
                }
                4 => {
                    model.remove(&order[0].1);
                    "ZPOPMIN z".to_owned()
                }
                5 => {
                    order.iter().rev().take(2).for_each(|(_, member)| {
                        model.remove(member);
                    });
                    "ZPOPMAX z 2".to_owned()
                }
                6 => {
                    model.remove(&order[near].1);
                    format!("ZREM z {}", order[near].1)
                }
                7 => {
                    *model.get_mut(&order[near].1).unwrap() += 50;
                    format!("ZINCRBY z 50 {}", order[near].1)
                }
                _ => {
                    order.iter().filter(|(score, _)| *score < order[3].0).for_each(|(_, member)| {
                        model.remove(member);
                    });
                    format!("ZREMRANGEBYSCORE z -inf ({}", order[3].0)
                }
            };
            assert!(!memory.ask(&line).starts_with('-'), "{line}");
            let mut order: Vec<(i64, &str)> =
                model.iter().map(|(member, score)| (*score, member.as_str())).collect();
            order.sort();
            let members: Vec<&str> = order.iter().map(|(_, member)| *member).collect();
            let context = format!("seed {seed}, step {step}: {line}");
            let whole = step % 50 == 0;
            let (first, last) = if whole { (0, members.len()) } else { (0, 2) };
            assert_eq!(
                memory.ask(&format!("ZRANGE z {first} {}", last - 1)),
                array(&members[first..last].join(" ")),
                "{context}"
            );
            let reversed = [members[members.len() - 1], members[members.len() - 2]].join(" ");
            assert_eq!(memory.ask("ZRANGE z 0 1 REV"), array(&reversed), "{context}");
            assert_eq!(
                memory.ask("ZRANGEBYSCORE z -inf +inf LIMIT 0 2"),
                array(&members[..2].join(" ")),
                "{context}"
            );
            assert_eq!(
                memory.ask(&format!("ZCOUNT z -inf {}", order[5].0)).len(),
                3 + usize::from(order.iter().filter(|(score, _)| *score <= order[5].0).count() > 9),
                "{context}"
            );
        }
    }
}
