//! The methods that an Esker server has beside HBase's, as in `Esker.thrift`.

use esker_table::DeleteKind;

use super::decode::{Decode, PUT_LEN, ROW_LEN};
use super::second;
use crate::fail::Fail;
use crate::wire::{Fault, Kind, Source};

/// The numbers of `MutationKind`.
pub(crate) const PUT: i32 = 0;
pub(crate) const DELETE_ROW: i32 = 1;
pub(crate) const DELETE_FAMILY: i32 = 2;
pub(crate) const DELETE_COLUMN: i32 = 3;
pub(crate) const DELETE_VERSION: i32 = 4;
pub(crate) const INCREMENT: i32 = 5;
pub(crate) const APPEND: i32 = 6;

/// The numbers of `ConditionKind`.
pub(crate) const ABSENT: i32 = 0;
pub(crate) const PRESENT: i32 = 1;
pub(crate) const EQUAL: i32 = 2;
pub(crate) const NOT_EQUAL: i32 = 3;
pub(crate) const LESS: i32 = 4;
pub(crate) const LESS_OR_EQUAL: i32 = 5;
pub(crate) const GREATER: i32 = 6;
pub(crate) const GREATER_OR_EQUAL: i32 = 7;

record! {
    /// A change of a row.
    Mutation takes PUT_LEN {
        1 kind: i32 = PUT,
        2 family: Option<&'a [u8]> = None,
        3 qualifier: Option<&'a [u8]> = None,
        4 value: Option<&'a [u8]> = None,
        5 timestamp: Option<i64> = None,
        6 by: Option<i64> = None,
    }
}

record! {
    /// Changes of a row, in their order.
    Row takes ROW_LEN {
        1 row: &'a [u8] = b"",
        2 mutations: Vec<Mutation<'a>> = Vec::new(),
    }
}

record! {
    /// What a column's latest cell is to be.
    Condition {
        1 kind: i32 = ABSENT,
        2 family: &'a [u8] = b"",
        3 qualifier: &'a [u8] = b"",
        4 value: Option<&'a [u8]> = None,
    }
}

record! {
    /// What a scanner is to read.
    Scan {
        1 start: &'a [u8] = b"",
        2 stop: &'a [u8] = b"",
        3 from: Option<i64> = None,
        4 until: Option<i64> = None,
        5 columns: Option<Vec<&'a [u8]>> = None,
        6 filter: Option<&'a [u8]> = None,
        7 batch: i32 = 0,
        8 is_reversed: bool = false,
        9 versions: i32 = 1,
        10 shows_deletes: bool = false,
    }
}

/// The numbers of `DeleteKind`.
pub(crate) const DELETE_KINDS: [(i32, DeleteKind); 4] =
    [(1, DeleteKind::Row), (2, DeleteKind::Family), (3, DeleteKind::Column), (4, DeleteKind::Version)];

calls! {
    /// A call of a method of Esker's own.
    "eskerVersion" Version throws 0 {}
    "eskerNamespaces" Namespaces throws 1 {}
    "eskerCreateNamespace" CreateNamespace throws 1 { 1 name: &'a [u8] = b"", }
    "eskerDropNamespace" DropNamespace throws 1 { 1 name: &'a [u8] = b"", }
    "eskerSchema" Schema throws 1 { 1 table: &'a [u8] = b"", }
    "eskerCreateTable" CreateTable throws 1 { 1 table: &'a [u8] = b"", 2 schema: &'a [u8] = b"", }
    "eskerAlterTable" AlterTable throws 1 { 1 table: &'a [u8] = b"", 2 schema: &'a [u8] = b"", }
    "eskerRenameTable" RenameTable throws 1 { 1 table: &'a [u8] = b"", 2 to: &'a [u8] = b"", }
    "eskerDropTable" DropTable throws 1 { 1 table: &'a [u8] = b"", }
    "eskerTruncateTable" TruncateTable throws 1 { 1 table: &'a [u8] = b"", }
    "eskerRebuildIndexes" RebuildIndexes throws 1 { 1 table: &'a [u8] = b"", }
    "eskerMutateRows" MutateRows throws 1 { 1 table: &'a [u8] = b"", 2 rows: Vec<Row<'a>> = Vec::new(), }
    "eskerCheckAndMutate" CheckAndMutate throws 1 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 conditions: Vec<Condition<'a>> = Vec::new(),
        4 mutations: Vec<Mutation<'a>> = Vec::new(),
    }
    "eskerScannerOpen" ScannerOpen throws 1 { 1 table: &'a [u8] = b"", 2 scan: Option<Scan<'a>> = None, }
    "eskerScannerGet" ScannerGet throws 1 { 1 id: i32 = 0, 2 rows: i32 = 0, }
    "eskerScannerClose" ScannerClose throws 1 { 1 id: i32 = 0, }
}

#[cfg(test)]
mod tests;
