//! Sorted sets.
//!
//! ```text
//! set        how a sorted set lies in a collection: two entries for each member
//! interval   intervals of scores and of members
//! members    one member after the other: ZADD, ZREM, ZSCORE, ZRANK, ZSCAN, ...
//! ranges     what lies within an interval: ZRANGE, ZCOUNT, ZREMRANGEBYSCORE, ...
//! pops       the first or last ones, which go: ZPOPMIN, BZPOPMIN, ZMPOP, ...
//! chance     ZRANDMEMBER
//! algebra    of several sorted sets or sets: ZUNION, ZINTERSTORE, ...
//! ```
//! Nothing counts the members before another one, so ranks and counts take a step for each member that they count.

use super::{
    ALL_BUT_LAST, FREES, FREES_ALL, Family, Flags, Keys, ONE, READS, READS_ALL, Spec, TWO, WRITES,
    WRITES_ALL, command,
};

mod algebra;
mod chance;
mod element;
mod interval;
mod members;
mod pops;
mod ranges;
mod set;

const SORTED_SET: Family = Family::SortedSet;

/// Waits for a member to come.
const BLOCKS: Flags = Flags { blocks: true, ..FREES };

const fn counted(at: usize, with_target: bool) -> Keys {
    Keys::Counted { at, with_target }
}

pub(crate) const COMMANDS: &[Spec] = &[
    command("zadd", -4, SORTED_SET, WRITES, ONE, members::zadd, "Adds members, or changes their scores"),
    command("zincrby", 4, SORTED_SET, WRITES, ONE, members::zincrby, "Adds to the score of a member"),
    command("zrem", -3, SORTED_SET, FREES, ONE, members::zrem, "Removes members"),
    command("zcard", 2, SORTED_SET, READS, ONE, members::zcard, "Counts the members of a sorted set"),
    command("zscore", 3, SORTED_SET, READS, ONE, members::zscore, "Returns the score of a member"),
    command("zmscore", -3, SORTED_SET, READS, ONE, members::zmscore, "Returns the scores of members"),
    command("zrank", 3, SORTED_SET, READS_ALL, ONE, members::zrank, "Counts the members before a member"),
    command(
        "zrevrank",
        3,
        SORTED_SET,
        READS_ALL,
        ONE,
        members::zrevrank,
        "Counts the members behind a member",
    ),
    command(
        "zcount",
        4,
        SORTED_SET,
        READS_ALL,
        ONE,
        ranges::zcount,
        "Counts members in an interval of scores",
    ),
    command("zlexcount", 4, SORTED_SET, READS_ALL, ONE, ranges::zlexcount, "Counts members in an interval"),
    command("zrange", -4, SORTED_SET, READS_ALL, ONE, ranges::zrange, "Returns members in an interval"),
    command(
        "zrangebyscore",
        -4,
        SORTED_SET,
        READS_ALL,
        ONE,
        ranges::zrangebyscore,
        "Returns members in an interval of scores",
    ),
    command(
        "zrangebylex",
        -4,
        SORTED_SET,
        READS_ALL,
        ONE,
        ranges::zrangebylex,
        "Returns members in an interval of members",
    ),
    command(
        "zrevrange",
        -4,
        SORTED_SET,
        READS_ALL,
        ONE,
        ranges::zrevrange,
        "Returns members in an interval of ranks, the last one first",
    ),
    command(
        "zrevrangebyscore",
        -4,
        SORTED_SET,
        READS_ALL,
        ONE,
        ranges::zrevrangebyscore,
        "Returns members in an interval of scores, the last one first",
    ),
    command(
        "zrevrangebylex",
        -4,
        SORTED_SET,
        READS_ALL,
        ONE,
        ranges::zrevrangebylex,
        "Returns members in an interval of members, the last one first",
    ),
    command(
        "zrangestore",
        -5,
        SORTED_SET,
        WRITES_ALL,
        TWO,
        ranges::zrangestore,
        "Copies members in an interval to another key",
    ),
    command(
        "zremrangebyrank",
        4,
        SORTED_SET,
        FREES_ALL,
        ONE,
        ranges::zremrangebyrank,
        "Removes members in an interval of ranks",
    ),
    command(
        "zremrangebyscore",
        4,
        SORTED_SET,
        FREES_ALL,
        ONE,
        ranges::zremrangebyscore,
        "Removes members in an interval of scores",
    ),
    command(
        "zremrangebylex",
        4,
        SORTED_SET,
        FREES_ALL,
        ONE,
        ranges::zremrangebylex,
        "Removes members in an interval of members",
    ),
    command("zpopmin", -2, SORTED_SET, FREES, ONE, pops::zpopmin, "Removes and returns the first members"),
    command("zpopmax", -2, SORTED_SET, FREES, ONE, pops::zpopmax, "Removes and returns the last members"),
    command(
        "bzpopmin",
        -3,
        SORTED_SET,
        BLOCKS,
        ALL_BUT_LAST,
        pops::bzpopmin,
        "Removes and returns the first member of the first key that has one, or waits for one",
    ),
    command(
        "bzpopmax",
        -3,
        SORTED_SET,
        BLOCKS,
        ALL_BUT_LAST,
        pops::bzpopmax,
        "Removes and returns the last member of the first key that has one, or waits for one",
    ),
    command(
        "zmpop",
        -4,
        SORTED_SET,
        FREES,
        counted(1, false),
        pops::zmpop,
        "Removes and returns members of the first key that has some",
    ),
    command(
        "bzmpop",
        -5,
        SORTED_SET,
        BLOCKS,
        counted(2, false),
        pops::bzmpop,
        "Removes and returns members of the first key that has some, or waits for one",
    ),
    command(
        "zscan",
        -3,
        SORTED_SET,
        READS,
        ONE,
        members::zscan,
        "Returns members and scores, piece by piece",
    ),
    command("zrandmember", -2, SORTED_SET, READS_ALL, ONE, chance::zrandmember, "Returns members by chance"),
    command(
        "zunion",
        -3,
        SORTED_SET,
        READS_ALL,
        counted(1, false),
        algebra::zunion,
        "Returns the members of any of the keys",
    ),
    command(
        "zinter",
        -3,
        SORTED_SET,
        READS_ALL,
        counted(1, false),
        algebra::zinter,
        "Returns the members of all of the keys",
    ),
    command(
        "zdiff",
        -3,
        SORTED_SET,
        READS_ALL,
        counted(1, false),
        algebra::zdiff,
        "Returns the members of the first key that the others do not have",
    ),
    command(
        "zintercard",
        -3,
        SORTED_SET,
        READS_ALL,
        counted(1, false),
        algebra::zintercard,
        "Counts the members of all of the keys",
    ),
    command(
        "zunionstore",
        -4,
        SORTED_SET,
        WRITES_ALL,
        counted(2, true),
        algebra::zunionstore,
        "Stores the members of any of the keys at another one",
    ),
    command(
        "zinterstore",
        -4,
        SORTED_SET,
        WRITES_ALL,
        counted(2, true),
        algebra::zinterstore,
        "Stores the members of all of the keys at another one",
    ),
    command(
        "zdiffstore",
        -4,
        SORTED_SET,
        WRITES_ALL,
        counted(2, true),
        algebra::zdiffstore,
        "Stores the members of the first key that the others do not have at another one",
    ),
];

#[cfg(test)]
mod tests;
