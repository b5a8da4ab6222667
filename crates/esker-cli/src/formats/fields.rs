//! The fields of one row, one after the other in memory that is reused for each row.

/// Fields, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// The fields' bytes.
    pub(super) bytes: Vec<u8>,
    /// Where each field ends in `bytes`.
    ends: Vec<usize>,
}

impl Fields {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends bytes to the field that is being read.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Ends the field that is being read.
    pub(super) fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Takes these fields in place of those that are there.
    pub(crate) fn set<'f>(&mut self, fields: impl Iterator<Item = &'f [u8]>) {
        self.clear();
        for field in fields {
            self.add(field);
            self.end_field();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The field `at`; empty if there are fewer fields.
    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.end(at - 1) };
        self.bytes.get(start..self.end(at)).unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.get(at))
    }

    fn end(&self, at: usize) -> usize {
        self.ends.get(at).copied().unwrap_or_default()
    }
}
