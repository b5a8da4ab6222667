//! The rules of this house as data: banned calls, the order of rooms, the parts of a store.

/// A call that only some files may make.
pub(crate) struct Ban {
    /// A path as `use` would name it, or a piece of code that begins with `.` or ends with `!` or `(`.
    pub(crate) what: &'static str,
    /// Beginnings of paths where it may stand. Tests are free of all bans.
    pub(crate) allowed_in: &'static [&'static str],
    pub(crate) reason: &'static str,
}

const NOT_IN_THE_LIBRARY: &[&str] = &["crates/esker-cli/", "crates/esker/examples/"];

/// A journal for tests, which decides in real time.
const LATE: &str = "crates/esker-journal/src/late.rs";

/// Everywhere but in the crate that evaluates commands: what it does must depend on its arguments alone, so that a
/// command can be evaluated again, and replicas agree.
const NOT_IN_EVALUATION: &[&str] =
    &["crates/esker/", "crates/esker-cli/", "crates/esker-server/", "crates/esker-thrift/", LATE];
const PURE: &str = "evaluation depends on its arguments alone";

/// Front ends change data through a journal: what they write has to reach all replicas.
const BELOW_THE_JOURNAL: &[&str] = &["crates/esker/", "crates/esker-cli/", "crates/esker-journal/"];
const JOURNAL: &str = "data changes through Journal, whose only store is not always this one";

pub(crate) const BANS: &[Ban] = &[
    Ban {
        what: "std::fs",
        allowed_in: &[
            "crates/esker/src/fs/",
            "crates/esker-cli/",
            "crates/esker-server/src/files.rs",
            "crates/esker-server/src/listen.rs",
            "crates/esker-server/src/process.rs",
            "crates/esker/examples/",
        ],
        reason: "files go through fs::FileSystem, so that tests can crash it",
    },
    Ban {
        what: "std::time::Instant",
        allowed_in: &[
            "crates/esker/src/env/",
            "crates/esker-cli/",
            "crates/esker-server/",
            "crates/esker-thrift/",
            "crates/esker/examples/",
            LATE,
        ],
        reason: "time goes through env::Clock, so that tests control it",
    },
    Ban {
        what: "SystemTime::now",
        allowed_in: &["crates/esker/src/env/", "crates/esker-cli/"],
        reason: "time goes through env::Clock, so that tests control it",
    },
    Ban {
        what: "std::thread::sleep",
        allowed_in: &["crates/esker/src/env/", "crates/esker-cli/"],
        reason: "wait for the thing itself, or use env::Clock::sleep",
    },
    Ban {
        what: "std::thread::spawn",
        allowed_in: &["crates/esker/src/env/", "crates/esker-cli/", "crates/esker/examples/", LATE],
        reason: "background work goes through env::Executor",
    },
    Ban {
        what: "std::env",
        allowed_in: &[
            "crates/esker/",
            "crates/esker-cli/",
            "crates/esker-server/",
            "crates/esker-thrift/",
            // Which rule a canary breaks.
            "crates/esker-table/src/canary.rs",
        ],
        reason: PURE,
    },
    Ban { what: "std::io", allowed_in: NOT_IN_EVALUATION, reason: PURE },
    Ban { what: "std::net", allowed_in: NOT_IN_EVALUATION, reason: PURE },
    Ban { what: "std::process", allowed_in: NOT_IN_EVALUATION, reason: PURE },
    Ban { what: "std::thread", allowed_in: NOT_IN_EVALUATION, reason: PURE },
    Ban { what: "std::time", allowed_in: NOT_IN_EVALUATION, reason: PURE },
    Ban { what: "db.write(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: "db.try_write(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: ".write_with(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: "db.tree(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: ".create_tree(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: ".drop_tree(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: "db.split(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: ".set_tag(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: ".unnamed_writer(", allowed_in: BELOW_THE_JOURNAL, reason: JOURNAL },
    Ban { what: ".unwrap()", allowed_in: &[], reason: "say what went wrong with an Error" },
    Ban { what: ".expect(", allowed_in: &[], reason: "say what went wrong with an Error" },
    Ban { what: "println!", allowed_in: NOT_IN_THE_LIBRARY, reason: "a library does not print" },
    Ban { what: "eprintln!", allowed_in: NOT_IN_THE_LIBRARY, reason: "a library does not print" },
    Ban { what: "print!", allowed_in: NOT_IN_THE_LIBRARY, reason: "a library does not print" },
    Ban { what: "eprint!", allowed_in: NOT_IN_THE_LIBRARY, reason: "a library does not print" },
];

/// Measuring programs and fuzz targets: workspaces of their own, free of the bans above.
pub(crate) const TOOLS: &[&str] = &["bench/", "fuzz/", "tools/linearizability/"];

/// Where the rooms are.
pub(crate) const HOUSE: &str = "crates/esker/src/";

/// The rooms from the ground floor up. A room imports from lower floors and from itself, never from its
/// own floor's neighbours or from above. `lib.rs` is the roof: it names them all.
pub(crate) const FLOORS: &[&[&str]] = &[
    &["error", "canary", "rate", "rng"],
    &["bloom", "codec", "checksum", "sync", "finding"],
    &["cursor", "keys"],
    &["ranges", "operators", "rules", "listener"],
    &["fs"],
    &["env"],
    &["events"],
    &["health", "io_budget"],
    &["trace"],
    &["options"],
    &["log", "memtable", "space"],
    &["cache"],
    &["table"],
    &["version"],
    &["blob"],
    &["state"],
    &["compact", "flush"],
    &["write"],
    &["value"],
    &["read"],
    &["stats"],
    &["store"],
    &["open"],
    &["tree"],
    &["txn", "updates"],
    &["admin", "typed"],
    &["db"],
    &["measure", "fuzzing"],
];

/// Types whose inherent `impl` blocks lie in several rooms, and why.
pub(crate) const SPREAD: &[(&str, &str)] =
    &[("Batch", "its public methods take a `Tree`, which is on a higher floor than the write path")];

/// The parts of a store. Each owns its state: no field of a part is visible outside its room.
pub(crate) const PARTS: &[&str] = &[
    "Backpressure",
    "BlobGc",
    "Collector",
    "CommitLog",
    "CompactionQueue",
    "Compactor",
    "Core",
    "Disk",
    "FlushQueue",
    "Flusher",
    "Garbage",
    "GarbageFinder",
    "Health",
    "Installer",
    "IoBudget",
    "OpenFiles",
    "RateLimit",
    "References",
    "Reserve",
    "Reshaper",
    "Scrub",
    "Space",
    "Store",
    "Values",
    "VersionSet",
    "Versions",
    "WritePath",
];
