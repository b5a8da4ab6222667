//! The store that does nothing: what the driver itself costs.

use super::{Result, Row, Store};

pub(super) struct None;

impl Store for None {
    fn put(&self, key: &[u8], value: &[u8], _sync: bool) -> Result<()> {
        std::hint::black_box((key, value));
        Ok(())
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        std::hint::black_box(pairs);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        std::hint::black_box(key);
        Ok(())
    }

    fn get(&self, key: &[u8], _value: &mut Vec<u8>) -> Result<bool> {
        Ok(std::hint::black_box(key).is_empty())
    }

    fn scan(&self, from: &[u8], _to: Option<&[u8]>, limit: u64, row: &mut Row<'_>) -> Result<u64> {
        let rows = limit.min(1_000_000);
        for _ in 0..rows {
            row(std::hint::black_box(from), from);
        }
        Ok(rows)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
