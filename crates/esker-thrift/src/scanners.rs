//! The scanners of a connection. A scanner holds a moment of the whole store, so their number is limited, and one that was not
//! asked for a time is gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use esker_table::Table;

use crate::rows::Rows;

pub(crate) struct Scanners {
    open: BTreeMap<i32, Leased>,
    next: i32,
    open_max: usize,
    lease: Duration,
}

struct Leased {
    table: Table,
    rows: Rows,
    used: Instant,
}

impl Scanners {
    pub(crate) fn new(open_max: usize, lease: Duration) -> Scanners {
        Scanners { open: BTreeMap::new(), next: 0, open_max, lease }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Closes those that nobody asked for a time.
    pub(crate) fn end_leases(&mut self) {
        let (now, lease) = (Instant::now(), self.lease);
        self.open.retain(|_, leased| now.duration_since(leased.used) < lease);
    }

    /// Keeps a scanner of `table`, and gives it a number. `None`: there are too many.
    pub(crate) fn add(&mut self, table: Table, rows: Rows) -> Option<i32> {
        self.end_leases();
        if self.open.len() >= self.open_max {
            return None;
        }
        while self.open.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1) & i32::MAX;
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1) & i32::MAX;
        self.open.insert(id, Leased { table, rows, used: Instant::now() });
        Some(id)
    }

    /// The table of the scanner with this number.
    pub(crate) fn table(&self, id: i32) -> Option<&Table> {
        self.open.get(&id).map(|leased| &leased.table)
    }

    /// The scanner with this number, whose lease begins anew.
    pub(crate) fn get(&mut self, id: i32) -> Option<&mut Rows> {
        self.end_leases();
        let leased = self.open.get_mut(&id)?;
        leased.used = Instant::now();
        Some(&mut leased.rows)
    }

    /// Closes a scanner. `false`: there is none with this number.
    pub(crate) fn close(&mut self, id: i32) -> bool {
        self.end_leases();
        self.open.remove(&id).is_some()
    }
}
