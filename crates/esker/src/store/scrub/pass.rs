//! One pass over everything that existed when it began.

use std::collections::VecDeque;

use super::Scrub;
use super::blobs::FileOfValues;
use super::tables::{Described, TableUnderWay};
use crate::blob::BlobFileId;
use crate::finding::CheckReport;

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
    pub(super) fn begin(scrub: &Scrub) -> Pass {
        Pass {
            tables: Described::all(scrub),
            table: None,
            blobs: scrub.core.blobs.files().iter().map(|live| live.id).collect(),
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
    pub(super) fn advance(&mut self, scrub: &Scrub, bytes: u64) -> bool {
        let enough = self.report.bytes.saturating_add(bytes);
        while self.report.bytes < enough {
            let left = enough - self.report.bytes;
            if let Some(table) = &mut self.table {
                if !table.advance(scrub, left, &mut self.report) {
                    self.table = None;
                }
            } else if let Some(described) = self.tables.pop_front() {
                self.table = described.open(scrub, &mut self.report);
            } else if let Some(file) = &mut self.blob {
                if !file.advance(scrub, left, &mut self.report) {
                    self.blob = None;
                }
            } else if let Some(id) = self.blobs.pop_front() {
                self.blob = FileOfValues::open(scrub, id, &mut self.report);
            } else {
                return false;
            }
        }
        true
    }
}
