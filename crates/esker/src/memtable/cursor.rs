//! A position in a memtable that keeps the memtable alive.
//!
//! A cursor sees entries that are inserted ahead of it while it stands. Entries never move or vanish. A step forward
//! follows a pointer; a step back is a search, since nodes have no backward links.

use std::sync::Arc;

use super::node::{NodePtr, NodeRef};
use super::{Memtable, newest_tag};
use crate::cursor::{Cursor, Kind, SeqNo};
use crate::error::Result;

pub(crate) struct MemCursor {
    table: Arc<Memtable>,
    node: Option<NodePtr>,
}

impl MemCursor {
    pub(super) fn new(table: Arc<Memtable>) -> MemCursor {
        MemCursor { table, node: None }
    }

    /// The greatest sequence number that the memtable has, or a greater one.
    pub(crate) fn newest(&self) -> SeqNo {
        self.table.newest()
    }

    #[inline]
    fn node(&self) -> NodeRef<'_> {
        let Some(node) = self.node else {
            unreachable!("the cursor is not valid");
        };
        // SAFETY: the node belongs to `table`, which the cursor keeps alive.
        unsafe { node.as_ref() }
    }
}

impl Cursor for MemCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.node.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.node = self.table.first().map(NodeRef::ptr);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.node = self.table.last().map(NodeRef::ptr);
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let target = self.table.target(key, newest_tag(seq));
        self.node = self.table.around(&target).1.map(NodeRef::ptr);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let target = self.table.target(key, newest_tag(seq));
        self.node = self.table.around(&target).0.map(NodeRef::ptr);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.node = self.node().next().map(NodeRef::ptr);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let node = self.node();
        let target = self.table.target(node.key(), newest_tag(node.seq()));
        let before = self.table.around(&target).0.map(NodeRef::ptr);
        self.node = before;
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.node().key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.node().seq()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.node().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.node().value()
    }
}
