//! What this house has settled, as data: limits with their exceptions, banned calls, the order of rooms.
//!
//! An exception needs a reason, and one that is no longer needed is reported like any other finding.

/// The longest file, in lines: beyond it there are usually two ideas in the file.
pub(crate) const FILE_LINES_MAX: usize = 500;
/// The longest file of tests.
pub(crate) const TEST_FILE_LINES_MAX: usize = 800;
/// The longest function, signature and braces included: about a screen.
pub(crate) const FUNCTION_LINES_MAX: usize = 70;
/// The longest function in tests.
pub(crate) const TEST_FUNCTION_LINES_MAX: usize = 100;

/// A file or function that may be longer than the rest.
pub(crate) struct Exception {
    pub(crate) path: &'static str,
    /// The function; empty for the file itself.
    pub(crate) function: &'static str,
    pub(crate) lines_max: usize,
    pub(crate) reason: &'static str,
}

pub(crate) const EXCEPTIONS: &[Exception] = &[];

/// A call that only some files may make.
pub(crate) struct Ban {
    /// A path as `use` would name it, or a piece of code that begins with `.` or ends with `!` or `(`.
    pub(crate) what: &'static str,
    /// Beginnings of paths where it may stand. Tests are free of all bans.
    pub(crate) allowed_in: &'static [&'static str],
    pub(crate) reason: &'static str,
}

const NOT_IN_THE_LIBRARY: &[&str] = &["crates/esker-cli/", "crates/esker/examples/"];

pub(crate) const BANS: &[Ban] = &[
    Ban {
        what: "std::fs",
        allowed_in: &["crates/esker/src/fs/", "crates/esker-cli/", "crates/esker/examples/"],
        reason: "files go through fs::FileSystem, so that tests can crash it",
    },
    Ban {
        what: "std::time::Instant",
        allowed_in: &["crates/esker/src/env/", "crates/esker-cli/", "crates/esker/examples/"],
        reason: "time goes through env::Clock, so that tests control it",
    },
    Ban {
        what: "std::time::SystemTime",
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
        allowed_in: &["crates/esker/src/env/", "crates/esker-cli/", "crates/esker/examples/"],
        reason: "background work goes through env::Executor",
    },
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
    &["codec", "checksum", "sync", "finding"],
    &["cursor", "keys"],
    &["ranges", "operators"],
    &["fs"],
    &["env"],
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
    &["care"],
    &["db"],
    &["measure", "fuzzing"],
];
