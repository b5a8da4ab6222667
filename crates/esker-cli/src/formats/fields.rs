//! The fields of one row, one after the other in memory that is reused for each row.

/// Fields, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The fields' bytes. Bytes behind the end of the last field do not count.
    pub(super) bytes: Vec<u8>,
    /// Where each field ends in `bytes`; only the first `count` count.
    pub(super) ends: Vec<usize>,
    pub(super) count: usize,
}

impl Fields {
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The field `at`; empty if there are fewer fields.
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.end(at - 1) };
        self.bytes.get(start..self.end(at)).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count).map(|at| self.get(at))
    }

    fn end(&self, at: usize) -> usize {
        self.ends.get(at).copied().unwrap_or_default()
    }
}
