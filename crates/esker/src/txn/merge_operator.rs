//! Changing values in a transaction without reading them.

use super::Txn;
use crate::error::Result;
use crate::keys;
use crate::operators::{ADD, APPEND};
use crate::tree::Tree;

impl Txn {
    /// Changes the value of `key` by `operand` with the merge operator `operator`, as [`Tree::merge`] does, when the
    /// transaction commits. The transaction's own reads already see the change. Such a read also counts as a read of
    /// the store's value.
    ///
    /// Nothing is read, so a serializable transaction does not rely on the key's value: the operator changes whatever
    /// other writes have left there. Any number of optimistic transactions can add to the same counter side by side,
    /// and each addition counts. Otherwise this is a write like any other. Under snapshot isolation, if two
    /// transactions overlap and write the key, only one of them commits. A pessimistic transaction locks the key
    /// exclusively.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let (orders, counts) = (db.tree("orders")?, db.tree("counts")?);
    /// let txn = db.begin(esker::TxnOptions::default())?;
    /// txn.put(&orders, "7", "two apples")?;
    /// txn.add(&counts, "apples", 2)?;
    /// counts.add("apples", 5)?; // somebody else, meanwhile
    /// txn.commit()?;
    /// let count = counts.get_vec("apples")?.expect("it was added to");
    /// assert_eq!(esker::keys::decode_i64(&count)?, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` when there is no such operator or it refuses the operand; otherwise as [`Txn::put`]. If the
    /// operator cannot change the value, every reader of the key gets `InvalidInput`, this transaction included.
    pub fn merge(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        operator: &str,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operators) = (key.as_ref(), self.operators());
        let operand = operators.encode(operator, operand.as_ref())?;
        self.change(tree, key, |writes| writes.merge(tree, key, operand, operators))
    }

    /// Adds `number` to the value of `key`, which [`keys::i64`] encodes: [`Txn::merge`] with [`ADD`].
    ///
    /// # Errors
    /// As [`Txn::merge`].
    pub fn add(&self, tree: &Tree, key: impl AsRef<[u8]>, number: i64) -> Result<()> {
        self.merge(tree, key, ADD, keys::i64(number))
    }

    /// Appends `bytes` to the value of `key`: [`Txn::merge`] with [`APPEND`].
    ///
    /// # Errors
    /// As [`Txn::merge`].
    pub fn append(&self, tree: &Tree, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.merge(tree, key, APPEND, bytes)
    }
}
