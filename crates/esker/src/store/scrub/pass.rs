//! One pass over everything that existed when it began.

use std::collections::VecDeque;

use super::blobs::FileOfValues;
use super::tables::{Described, TableUnderWay};
use crate::blob::BlobFileId;
use crate::finding::CheckReport;
use crate::store::Store;

/// See the module.
#[derive(Debug)]
pub(super) struct Pass {
    tables: VecDeque<Described>,
    table: Option<TableUnderWay>,
    blobs: VecDeque<BlobFileId>,
    blob: Option<FileOfValues>,
    report: CheckReport,
}

impl Pass {
    pub(super) fn begin(store: &Store) -> Pass {
        Pass {
            tables: Described::all(store),
            table: None,
            blobs: store.blobs.files().iter().map(|live| live.id).collect(),
            blob: None,
            report: CheckReport::default(),
        }
    }

    pub(super) fn report(&self) -> &CheckReport {
        &self.report
    }

    pub(super) fn into_report(self) -> CheckReport {
        self.report
    }

    /// Reads about `bytes` more bytes. `false` at the end.
    pub(super) fn advance(&mut self, store: &Store, bytes: u64) -> bool {
        let enough = self.report.bytes.saturating_add(bytes);
        while self.report.bytes < enough {
            let left = enough - self.report.bytes;
            if let Some(table) = &mut self.table {
                if !table.advance(store, left, &mut self.report) {
                    self.table = None;
                }
            } else if let Some(described) = self.tables.pop_front() {
                self.table = described.open(store, &mut self.report);
            } else if let Some(file) = &mut self.blob {
                if !file.advance(store, left, &mut self.report) {
                    self.blob = None;
                }
            } else if let Some(id) = self.blobs.pop_front() {
                self.blob = FileOfValues::open(store, id, &mut self.report);
            } else {
                return false;
            }
        }
        true
    }
}
