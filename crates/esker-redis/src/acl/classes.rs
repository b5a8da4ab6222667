//! Which categories each command is in, and what it does with its keys: as Redis 7.0 has them.
//!
//! A subcommand is an entry of its own: `config|get`. The entry of a command with subcommands stands for those that are
//! not listed. Our own commands are in the categories of their nearest relatives.

use crate::commands::{Spec, is};

/// The names of categories. The place of a name is the number of its bit.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

const KEYSPACE: u32 = 1;
const READ: u32 = 1 << 1;
const WRITE: u32 = 1 << 2;
const SET: u32 = 1 << 3;
const SORTEDSET: u32 = 1 << 4;
const LIST: u32 = 1 << 5;
const HASH: u32 = 1 << 6;
const STRING: u32 = 1 << 7;
const BITMAP: u32 = 1 << 8;
const PUBSUB: u32 = 1 << 12;
const ADMIN: u32 = 1 << 13;
const FAST: u32 = 1 << 14;
const SLOW: u32 = 1 << 15;
const BLOCKING: u32 = 1 << 16;
const DANGEROUS: u32 = 1 << 17;
const CONNECTION: u32 = 1 << 18;
const TRANSACTION: u32 = 1 << 19;
const SCRIPTING: u32 = 1 << 20;

/// What a command does with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// It tells what the key holds.
    pub(super) reads: bool,
    /// It changes what the key holds.
    pub(super) writes: bool,
}

/// It tells no more than whether the key is there, how long its value is, or the like.
const N: Access = Access { reads: false, writes: false };
const R: Access = Access { reads: true, writes: false };
const W: Access = Access { reads: false, writes: true };
const RW: Access = Access { reads: true, writes: true };

/// A command or subcommand.
pub(super) struct Class {
    pub(super) name: &'static str,
    /// A bit for each category.
    pub(super) categories: u32,
    /// Of the first key, and of all others.
    pub(super) access: [Access; 2],
}

const fn class(name: &'static str, categories: u32, access: [Access; 2]) -> Class {
    Class { name, categories, access }
}

/// In the order of names.
pub(super) const CLASSES: &[Class] = &[
    class("acl", SLOW, [N, N]),
    class("acl|cat", SLOW, [N, N]),
    class("acl|deluser", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|dryrun", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|genpass", SLOW, [N, N]),
    class("acl|getuser", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|help", SLOW, [N, N]),
    class("acl|list", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|load", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|save", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|setuser", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|users", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("acl|whoami", SLOW, [N, N]),
    class("append", WRITE | STRING | FAST, [W, W]),
    class("asking", FAST | CONNECTION, [N, N]),
    class("auth", FAST | CONNECTION, [N, N]),
    class("bgsave", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("bitcount", READ | BITMAP | SLOW, [R, R]),
    class("bitop", WRITE | BITMAP | SLOW, [W, R]),
    class("bitpos", READ | BITMAP | SLOW, [R, R]),
    class("blmove", WRITE | LIST | SLOW | BLOCKING, [RW, W]),
    class("blmpop", WRITE | LIST | SLOW | BLOCKING, [RW, RW]),
    class("blpop", WRITE | LIST | SLOW | BLOCKING, [RW, RW]),
    class("brpop", WRITE | LIST | SLOW | BLOCKING, [RW, RW]),
    class("brpoplpush", WRITE | LIST | SLOW | BLOCKING, [RW, W]),
    class("bzmpop", WRITE | SORTEDSET | SLOW | BLOCKING, [RW, RW]),
    class("bzpopmax", WRITE | SORTEDSET | FAST | BLOCKING, [RW, RW]),
    class("bzpopmin", WRITE | SORTEDSET | FAST | BLOCKING, [RW, RW]),
    class("cad", WRITE | STRING | FAST, [RW, RW]),
    class("cas", WRITE | STRING | FAST, [RW, RW]),
    class("client", SLOW, [N, N]),
    class("client|getname", SLOW | CONNECTION, [N, N]),
    class("client|help", SLOW | CONNECTION, [N, N]),
    class("client|id", SLOW | CONNECTION, [N, N]),
    class("client|info", SLOW | CONNECTION, [N, N]),
    class("client|kill", ADMIN | SLOW | DANGEROUS | CONNECTION, [N, N]),
    class("client|list", ADMIN | SLOW | DANGEROUS | CONNECTION, [N, N]),
    class("client|no-evict", ADMIN | SLOW | DANGEROUS | CONNECTION, [N, N]),
    class("client|no-touch", SLOW | CONNECTION, [N, N]),
    class("client|reply", SLOW | CONNECTION, [N, N]),
    class("client|setinfo", SLOW | CONNECTION, [N, N]),
    class("client|setname", SLOW | CONNECTION, [N, N]),
    class("client|unblock", ADMIN | SLOW | DANGEROUS | CONNECTION, [N, N]),
    class("cluster", SLOW, [N, N]),
    class("command", SLOW | CONNECTION, [N, N]),
    class("command|count", SLOW | CONNECTION, [N, N]),
    class("command|docs", SLOW | CONNECTION, [N, N]),
    class("command|getkeys", SLOW | CONNECTION, [N, N]),
    class("command|help", SLOW | CONNECTION, [N, N]),
    class("command|info", SLOW | CONNECTION, [N, N]),
    class("command|list", SLOW | CONNECTION, [N, N]),
    class("config", SLOW, [N, N]),
    class("config|get", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("config|help", SLOW, [N, N]),
    class("config|resetstat", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("config|rewrite", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("config|set", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("copy", KEYSPACE | WRITE | SLOW, [R, W]),
    class("dbsize", KEYSPACE | READ | FAST, [N, N]),
    class("decr", WRITE | STRING | FAST, [RW, RW]),
    class("decrby", WRITE | STRING | FAST, [RW, RW]),
    class("del", KEYSPACE | WRITE | SLOW, [W, W]),
    class("discard", FAST | TRANSACTION, [N, N]),
    class("echo", FAST | CONNECTION, [N, N]),
    class("exec", SLOW | TRANSACTION, [N, N]),
    class("exists", KEYSPACE | READ | FAST, [N, N]),
    class("expire", KEYSPACE | WRITE | FAST, [W, W]),
    class("expireat", KEYSPACE | WRITE | FAST, [W, W]),
    class("expiretime", KEYSPACE | READ | FAST, [R, R]),
    class("flushall", KEYSPACE | WRITE | SLOW | DANGEROUS, [N, N]),
    class("flushdb", KEYSPACE | WRITE | SLOW | DANGEROUS, [N, N]),
    class("function", SLOW, [N, N]),
    class("function|flush", WRITE | SLOW | SCRIPTING, [N, N]),
    class("function|help", SLOW | SCRIPTING, [N, N]),
    class("get", READ | STRING | FAST, [R, R]),
    class("getbit", READ | BITMAP | FAST, [R, R]),
    class("getdel", WRITE | STRING | FAST, [RW, RW]),
    class("getex", WRITE | STRING | FAST, [RW, RW]),
    class("getrange", READ | STRING | SLOW, [R, R]),
    class("getset", WRITE | STRING | FAST, [RW, RW]),
    class("hdel", WRITE | HASH | FAST, [W, W]),
    class("hello", FAST | CONNECTION, [N, N]),
    class("hexists", READ | HASH | FAST, [N, N]),
    class("hget", READ | HASH | FAST, [R, R]),
    class("hgetall", READ | HASH | SLOW, [R, R]),
    class("hincrby", WRITE | HASH | FAST, [RW, RW]),
    class("hincrbyfloat", WRITE | HASH | FAST, [RW, RW]),
    class("hkeys", READ | HASH | SLOW, [R, R]),
    class("hlen", READ | HASH | FAST, [N, N]),
    class("hmget", READ | HASH | FAST, [R, R]),
    class("hmset", WRITE | HASH | FAST, [W, W]),
    class("hrandfield", READ | HASH | SLOW, [R, R]),
    class("hscan", READ | HASH | SLOW, [R, R]),
    class("hset", WRITE | HASH | FAST, [W, W]),
    class("hsetnx", WRITE | HASH | FAST, [W, W]),
    class("hstrlen", READ | HASH | FAST, [N, N]),
    class("hvals", READ | HASH | SLOW, [R, R]),
    class("incr", WRITE | STRING | FAST, [RW, RW]),
    class("incrby", WRITE | STRING | FAST, [RW, RW]),
    class("incrbyfloat", WRITE | STRING | FAST, [RW, RW]),
    class("info", SLOW | DANGEROUS, [N, N]),
    class("keys", KEYSPACE | READ | SLOW | DANGEROUS, [N, N]),
    class("lastsave", ADMIN | FAST | DANGEROUS, [N, N]),
    class("latency", SLOW, [N, N]),
    class("latency|doctor", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("latency|graph", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("latency|help", SLOW, [N, N]),
    class("latency|histogram", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("latency|history", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("latency|latest", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("latency|reset", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("lindex", READ | LIST | SLOW, [R, R]),
    class("linsert", WRITE | LIST | SLOW, [W, W]),
    class("llen", READ | LIST | FAST, [N, N]),
    class("lmove", WRITE | LIST | SLOW, [RW, W]),
    class("lmpop", WRITE | LIST | SLOW, [RW, RW]),
    class("lpop", WRITE | LIST | FAST, [RW, RW]),
    class("lpos", READ | LIST | SLOW, [R, R]),
    class("lpush", WRITE | LIST | FAST, [W, W]),
    class("lpushx", WRITE | LIST | FAST, [W, W]),
    class("lrange", READ | LIST | SLOW, [R, R]),
    class("lrem", WRITE | LIST | SLOW, [W, W]),
    class("lset", WRITE | LIST | SLOW, [W, W]),
    class("ltrim", WRITE | LIST | SLOW, [W, W]),
    class("memory", SLOW, [N, N]),
    class("memory|help", SLOW, [N, N]),
    class("memory|usage", READ | SLOW, [N, N]),
    class("mget", READ | STRING | FAST, [R, R]),
    class("move", KEYSPACE | WRITE | FAST, [RW, RW]),
    class("mset", WRITE | STRING | SLOW, [W, W]),
    class("msetnx", WRITE | STRING | SLOW, [W, W]),
    class("multi", FAST | TRANSACTION, [N, N]),
    class("object", SLOW, [N, N]),
    class("object|encoding", KEYSPACE | READ | SLOW, [N, N]),
    class("object|freq", KEYSPACE | READ | SLOW, [N, N]),
    class("object|help", KEYSPACE | SLOW, [N, N]),
    class("object|idletime", KEYSPACE | READ | SLOW, [N, N]),
    class("object|refcount", KEYSPACE | READ | SLOW, [N, N]),
    class("persist", KEYSPACE | WRITE | FAST, [W, W]),
    class("pexpire", KEYSPACE | WRITE | FAST, [W, W]),
    class("pexpireat", KEYSPACE | WRITE | FAST, [W, W]),
    class("pexpiretime", KEYSPACE | READ | FAST, [R, R]),
    class("ping", FAST | CONNECTION, [N, N]),
    class("psetex", WRITE | STRING | SLOW, [W, W]),
    class("psubscribe", PUBSUB | SLOW, [N, N]),
    class("pttl", KEYSPACE | READ | FAST, [R, R]),
    class("publish", PUBSUB | FAST, [N, N]),
    class("pubsub", SLOW, [N, N]),
    class("pubsub|channels", PUBSUB | SLOW, [N, N]),
    class("pubsub|help", SLOW, [N, N]),
    class("pubsub|numpat", PUBSUB | SLOW, [N, N]),
    class("pubsub|numsub", PUBSUB | SLOW, [N, N]),
    class("pubsub|shardchannels", PUBSUB | SLOW, [N, N]),
    class("punsubscribe", PUBSUB | SLOW, [N, N]),
    class("quit", FAST | CONNECTION, [N, N]),
    class("randomkey", KEYSPACE | READ | SLOW, [N, N]),
    class("range", KEYSPACE | READ | SLOW, [N, N]),
    class("rangedel", KEYSPACE | WRITE | SLOW, [N, N]),
    class("readonly", FAST | CONNECTION, [N, N]),
    class("readwrite", FAST | CONNECTION, [N, N]),
    class("rename", KEYSPACE | WRITE | SLOW, [RW, W]),
    class("renamenx", KEYSPACE | WRITE | FAST, [RW, W]),
    class("reset", FAST | CONNECTION, [N, N]),
    class("role", ADMIN | FAST | DANGEROUS, [N, N]),
    class("rpop", WRITE | LIST | FAST, [RW, RW]),
    class("rpoplpush", WRITE | LIST | SLOW, [RW, W]),
    class("rpush", WRITE | LIST | FAST, [W, W]),
    class("rpushx", WRITE | LIST | FAST, [W, W]),
    class("sadd", WRITE | SET | FAST, [W, W]),
    class("scan", KEYSPACE | READ | SLOW, [N, N]),
    class("scard", READ | SET | FAST, [N, N]),
    class("sdiff", READ | SET | SLOW, [R, R]),
    class("sdiffstore", WRITE | SET | SLOW, [W, R]),
    class("select", FAST | CONNECTION, [N, N]),
    class("set", WRITE | STRING | SLOW, [RW, RW]),
    class("setbit", WRITE | BITMAP | SLOW, [RW, RW]),
    class("setex", WRITE | STRING | SLOW, [W, W]),
    class("setnx", WRITE | STRING | FAST, [W, W]),
    class("setrange", WRITE | STRING | SLOW, [W, W]),
    class("sinter", READ | SET | SLOW, [R, R]),
    class("sintercard", READ | SET | SLOW, [R, R]),
    class("sinterstore", WRITE | SET | SLOW, [W, R]),
    class("sismember", READ | SET | FAST, [N, N]),
    class("slowlog", SLOW, [N, N]),
    class("slowlog|get", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("slowlog|help", SLOW, [N, N]),
    class("slowlog|len", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("slowlog|reset", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("slowlog|why", ADMIN | SLOW | DANGEROUS, [N, N]),
    class("smembers", READ | SET | SLOW, [R, R]),
    class("smismember", READ | SET | FAST, [R, R]),
    class("smove", WRITE | SET | FAST, [RW, W]),
    class("spop", WRITE | SET | FAST, [RW, RW]),
    class("srandmember", READ | SET | SLOW, [R, R]),
    class("srem", WRITE | SET | FAST, [W, W]),
    class("sscan", READ | SET | SLOW, [R, R]),
    class("strlen", READ | STRING | FAST, [N, N]),
    class("subscribe", PUBSUB | SLOW, [N, N]),
    class("substr", READ | STRING | SLOW, [R, R]),
    class("sunion", READ | SET | SLOW, [R, R]),
    class("sunionstore", WRITE | SET | SLOW, [W, R]),
    class("time", FAST, [N, N]),
    class("touch", KEYSPACE | READ | FAST, [N, N]),
    class("ttl", KEYSPACE | READ | FAST, [R, R]),
    class("type", KEYSPACE | READ | FAST, [N, N]),
    class("unlink", KEYSPACE | WRITE | FAST, [W, W]),
    class("unsubscribe", PUBSUB | SLOW, [N, N]),
    class("unwatch", FAST | TRANSACTION, [N, N]),
    class("wait", SLOW | CONNECTION, [N, N]),
    class("waitaof", SLOW | CONNECTION, [N, N]),
    class("watch", FAST | TRANSACTION, [N, N]),
    class("zadd", WRITE | SORTEDSET | FAST, [W, W]),
    class("zcard", READ | SORTEDSET | FAST, [N, N]),
    class("zcount", READ | SORTEDSET | FAST, [R, R]),
    class("zdiff", READ | SORTEDSET | SLOW, [R, R]),
    class("zdiffstore", WRITE | SORTEDSET | SLOW, [W, R]),
    class("zincrby", WRITE | SORTEDSET | FAST, [RW, RW]),
    class("zinter", READ | SORTEDSET | SLOW, [R, R]),
    class("zintercard", READ | SORTEDSET | SLOW, [R, R]),
    class("zinterstore", WRITE | SORTEDSET | SLOW, [W, R]),
    class("zlexcount", READ | SORTEDSET | FAST, [R, R]),
    class("zmpop", WRITE | SORTEDSET | SLOW, [RW, RW]),
    class("zmscore", READ | SORTEDSET | FAST, [R, R]),
    class("zpopmax", WRITE | SORTEDSET | FAST, [RW, RW]),
    class("zpopmin", WRITE | SORTEDSET | FAST, [RW, RW]),
    class("zrandmember", READ | SORTEDSET | SLOW, [R, R]),
    class("zrange", READ | SORTEDSET | SLOW, [R, R]),
    class("zrangebylex", READ | SORTEDSET | SLOW, [R, R]),
    class("zrangebyscore", READ | SORTEDSET | SLOW, [R, R]),
    class("zrangestore", WRITE | SORTEDSET | SLOW, [W, R]),
    class("zrank", READ | SORTEDSET | FAST, [R, R]),
    class("zrem", WRITE | SORTEDSET | FAST, [W, W]),
    class("zremrangebylex", WRITE | SORTEDSET | SLOW, [W, W]),
    class("zremrangebyrank", WRITE | SORTEDSET | SLOW, [W, W]),
    class("zremrangebyscore", WRITE | SORTEDSET | SLOW, [W, W]),
    class("zrevrange", READ | SORTEDSET | SLOW, [R, R]),
    class("zrevrangebylex", READ | SORTEDSET | SLOW, [R, R]),
    class("zrevrangebyscore", READ | SORTEDSET | SLOW, [R, R]),
    class("zrevrank", READ | SORTEDSET | FAST, [R, R]),
    class("zscan", READ | SORTEDSET | SLOW, [R, R]),
    class("zscore", READ | SORTEDSET | FAST, [R, R]),
    class("zunion", READ | SORTEDSET | SLOW, [R, R]),
    class("zunionstore", WRITE | SORTEDSET | SLOW, [W, R]),
];

/// The place of a command or subcommand in [`CLASSES`], by its name in any case of letters.
pub(super) fn place(name: &[u8]) -> Option<usize> {
    let lower = name.to_ascii_lowercase();
    CLASSES.binary_search_by(|class| class.name.as_bytes().cmp(&lower)).ok()
}

/// The places of the subcommands of a command; none if it has none.
pub(super) fn subcommands(place: usize) -> std::ops::Range<usize> {
    let is_sub = |class: &Class| {
        let rest = class.name.strip_prefix(CLASSES[place].name);
        rest.is_some_and(|rest| rest.starts_with('|'))
    };
    // They come behind it: no letter of a name is greater than the bar.
    let count = CLASSES[place + 1..].iter().take_while(|class| is_sub(class)).count();
    place + 1..place + 1 + count
}

/// The class of a command with its arguments: that of its subcommand, if there is one.
pub(super) fn place_of(spec: &Spec, arguments: &[&[u8]]) -> Option<usize> {
    let place = place(spec.name.as_bytes())?;
    let given = arguments.get(1).copied().unwrap_or_default();
    let name = |at: &usize| &CLASSES[*at].name[spec.name.len() + 1..];
    Some(subcommands(place).find(|at| given.eq_ignore_ascii_case(name(at).as_bytes())).unwrap_or(place))
}

/// What a command does with its first key, and with all others.
pub(super) fn access_of(place: usize, arguments: &[&[u8]]) -> [Access; 2] {
    let class = &CLASSES[place];
    // It returns the old value only if it is asked to.
    if class.name == "set" && !arguments.iter().skip(3).any(|option| is(option, "GET")) {
        return [W, W];
    }
    class.access
}

/// The number of the bit of a category.
pub(super) fn category(name: &[u8]) -> Option<usize> {
    CATEGORIES.iter().position(|category| name.eq_ignore_ascii_case(category.as_bytes()))
}

/// The names of the categories of a command or subcommand.
pub fn categories_of(name: &str) -> impl Iterator<Item = &'static str> {
    let bits = place(name.as_bytes()).map_or(0, |place| CLASSES[place].categories);
    CATEGORIES.iter().enumerate().filter(move |(bit, _)| bits & (1 << bit) != 0).map(|(_, name)| *name)
}

/// The commands and subcommands of a category. `None`: there is no such category.
pub fn commands_of(category_name: &[u8]) -> Option<impl Iterator<Item = &'static str>> {
    let bit = category(category_name)?;
    Some(CLASSES.iter().filter(move |class| class.categories & (1 << bit) != 0).map(|class| class.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::specs;

    #[test]
    fn every_command_has_a_class() {
        assert!(CLASSES.is_sorted_by_key(|class| class.name.as_bytes()));
        for spec in specs() {
            let place = place(spec.name.as_bytes()).unwrap_or_else(|| panic!("{} has no class", spec.name));
            let bits = CLASSES[place].categories;
            assert_eq!(bits & FAST == 0, bits & SLOW != 0, "{}", spec.name);
            if subcommands(place).is_empty() {
                assert_eq!(bits & WRITE != 0, spec.flags.writes, "{}", spec.name);
                assert_eq!(bits & BLOCKING != 0, spec.flags.blocks, "{}", spec.name);
            }
        }
        for spec in specs() {
            for sub in crate::commands::subcommands::subcommands(spec.name) {
                let name = format!("{}|{}", spec.name, sub.name);
                assert!(place(name.as_bytes()).is_some(), "{name} has no class");
            }
        }
        let named = |class: &Class| {
            let name = class.name.split('|').next().unwrap_or(class.name);
            specs().any(|spec| spec.name == name)
        };
        assert!(CLASSES.iter().all(named));
        let listed = CLASSES.iter().filter(|class| class.name.contains('|')).count();
        assert_eq!((0..CLASSES.len()).map(|place| subcommands(place).len()).sum::<usize>(), listed);
    }

    #[test]
    fn subcommands_are_found_behind_their_command() {
        let client = place(b"CLIENT").unwrap();
        assert!(subcommands(client).all(|at| CLASSES[at].name.starts_with("client|")));
        assert_eq!(subcommands(client).len(), 12);
        assert!(subcommands(place(b"get").unwrap()).is_empty());
        assert!(subcommands(CLASSES.len() - 1).is_empty());
        let config = crate::spec(b"config").unwrap();
        let name = |arguments: &[&[u8]]| CLASSES[place_of(config, arguments).unwrap()].name;
        assert_eq!(name(&[b"config", b"GET", b"x"]), "config|get");
        assert_eq!(name(&[b"config", b"gets"]), "config");
        assert_eq!(name(&[b"config"]), "config");
    }

    #[test]
    fn categories_are_told_by_name() {
        assert_eq!(categories_of("get").collect::<Vec<_>>(), ["read", "string", "fast"]);
        assert!(commands_of(b"DANGEROUS").unwrap().any(|name| name == "config|set"));
        assert_eq!(commands_of(b"stream").unwrap().count(), 0);
        assert!(commands_of(b"nope").is_none());
    }
}
