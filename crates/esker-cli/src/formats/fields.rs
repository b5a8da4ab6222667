//! The fields of one row, one after the other in memory that is reused for each row.

/// Fields, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Fields {
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

    /// Takes these fields in place of those that are there.
    pub(crate) fn set<'f>(&mut self, fields: impl Iterator<Item = &'f [u8]>) {
        self.bytes.clear();
        self.ends.clear();
        for field in fields {
            self.bytes.extend_from_slice(field);
            self.ends.push(self.bytes.len());
        }
        self.count = self.ends.len();
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The field `at`; empty if there are fewer fields.
    pub(crate) fn get(&self, at: usize) -> &[u8] {
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
