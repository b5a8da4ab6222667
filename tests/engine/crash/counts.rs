//! What happened in the lives of a run, to be sure that it did happen.

/// What happened in the lives of a run, to be sure that it did happen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) crashes: u64,
    pub(crate) kills: u64,
    pub(crate) crashes_in_recovery: u64,
    pub(crate) openings: u64,
    pub(crate) events: u64,
    pub(crate) events_lost: u64,
    pub(crate) torn_tails: u64,
    pub(crate) rotated: u64,
    pub(crate) recycled: u64,
    pub(crate) merges: u64,
    pub(crate) checkpoints_opened: u64,
    pub(crate) read_only_openings: u64,
    pub(crate) huge_values: u64,
    pub(crate) checks: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.openings += other.openings;
        self.events += other.events;
        self.events_lost += other.events_lost;
        self.torn_tails += other.torn_tails;
        self.rotated += other.rotated;
        self.recycled += other.recycled;
        self.merges += other.merges;
        self.checkpoints_opened += other.checkpoints_opened;
        self.read_only_openings += other.read_only_openings;
        self.huge_values += other.huge_values;
        self.checks += other.checks;
    }
}
