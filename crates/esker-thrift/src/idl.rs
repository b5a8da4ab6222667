//! HBase's interface, and Esker's [own]: structures and calls, as far as clients send them, with the numbers of their fields.
//!
//! Fields that are not listed, or have another type, are passed over, with two exceptions: [attributes](attributes) that change what an
//! operation does, and fields by which a client of HBase's [second](second) interface is known.

mod attributes;
#[macro_use]
mod decode;
pub(crate) mod own;
mod second;

use crate::fail::Fail;
use crate::memory::ELEMENT_LEN;
use crate::wire::{Fault, Kind, Source};
use decode::{Decode, PUT_LEN, ROW_LEN};

/// What a change that is not a put takes beyond [`PUT_LEN`], in bytes. A call that also has such changes is executed in another way, and
/// this counts for each of its changes.
pub(crate) const CHANGE_LEN: usize = ELEMENT_LEN - PUT_LEN;

record! {
    /// What a column family is to be.
    ColumnDescriptor {
        1 name: &'a [u8] = b"",
        2 max_versions: i32 = 3,
        3 compression: &'a [u8] = b"NONE",
        5 bloom_filter: &'a [u8] = b"NONE",
        9 time_to_live: i32 = i32::MAX,
    }
}

record! {
    /// A put or a delete of a column.
    Mutation takes PUT_LEN {
        1 is_delete: bool = false,
        2 column: &'a [u8] = b"",
        3 value: &'a [u8] = b"",
    }
}

record! {
    /// Puts and deletes of a row.
    BatchMutation takes ROW_LEN {
        1 row: &'a [u8] = b"",
        2 mutations: Vec<Mutation<'a>> = Vec::new(),
    }
}

record! {
    /// What is added to a counter.
    Increment {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 column: &'a [u8] = b"",
        4 amount: i64 = 0,
    }
}

record! {
    /// What is appended to columns of a row.
    Append {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 columns: Vec<&'a [u8]> = Vec::new(),
        4 values: Vec<&'a [u8]> = Vec::new(),
    }
}

record! {
    /// What a scanner is to read.
    Scan {
        1 start: &'a [u8] = b"",
        2 stop: &'a [u8] = b"",
        3 timestamp: Option<i64> = None,
        4 columns: Option<Vec<&'a [u8]>> = None,
        6 filter: Option<&'a [u8]> = None,
        7 batch: i32 = 0,
        8 sorts_columns: bool = false,
        9 is_reversed: bool = false,
    }
}

calls! {
    /// A call of a method of HBase's interface.
    "enableTable" EnableTable throws 1 { 1 table: &'a [u8] = b"", }
    "disableTable" DisableTable throws 1 { 1 table: &'a [u8] = b"", }
    "isTableEnabled" IsTableEnabled throws 1 { 1 table: &'a [u8] = b"", }
    "compact" Compact throws 1 { 1 name: &'a [u8] = b"", }
    "majorCompact" MajorCompact throws 1 { 1 name: &'a [u8] = b"", }
    "getTableNames" GetTableNames throws 1 {}
    "getTableNamesWithIsTableEnabled" GetTableNamesWithIsTableEnabled throws 1 {}
    "getColumnDescriptors" GetColumnDescriptors throws 1 { 1 table: &'a [u8] = b"", }
    "getTableRegions" GetTableRegions throws 1 { 1 table: &'a [u8] = b"", }
    "createTable" CreateTable throws 3 {
        1 table: &'a [u8] = b"",
        2 families: Vec<ColumnDescriptor<'a>> = Vec::new(),
    }
    "deleteTable" DeleteTable throws 1 { 1 table: &'a [u8] = b"", }
    "get" Get throws 1 reads 4 { 1 table: &'a [u8] = b"", 2 row: &'a [u8] = b"", 3 column: &'a [u8] = b"", }
    "getVer" GetVer throws 1 reads 5 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 column: &'a [u8] = b"",
        4 versions: i32 = 0,
    }
    "getVerTs" GetVerTs throws 1 reads 6 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 column: &'a [u8] = b"",
        4 timestamp: i64 = 0,
        5 versions: i32 = 0,
    }
    "getRow" GetRow throws 1 reads 3 { 1 table: &'a [u8] = b"", 2 row: &'a [u8] = b"", }
    "getRowWithColumns" GetRowWithColumns throws 1 reads 4 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 columns: Option<Vec<&'a [u8]>> = None,
    }
    "getRowTs" GetRowTs throws 1 reads 4 { 1 table: &'a [u8] = b"", 2 row: &'a [u8] = b"", 3 timestamp: i64 = 0, }
    "getRowWithColumnsTs" GetRowWithColumnsTs throws 1 reads 5 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 columns: Option<Vec<&'a [u8]>> = None,
        4 timestamp: i64 = 0,
    }
    "getRows" GetRows throws 1 reads 3 { 1 table: &'a [u8] = b"", 2 rows: Vec<&'a [u8]> = Vec::new(), }
    "getRowsWithColumns" GetRowsWithColumns throws 1 reads 4 {
        1 table: &'a [u8] = b"",
        2 rows: Vec<&'a [u8]> = Vec::new(),
        3 columns: Option<Vec<&'a [u8]>> = None,
    }
    "getRowsTs" GetRowsTs throws 1 reads 4 {
        1 table: &'a [u8] = b"",
        2 rows: Vec<&'a [u8]> = Vec::new(),
        3 timestamp: i64 = 0,
    }
    "getRowsWithColumnsTs" GetRowsWithColumnsTs throws 1 reads 5 {
        1 table: &'a [u8] = b"",
        2 rows: Vec<&'a [u8]> = Vec::new(),
        3 columns: Option<Vec<&'a [u8]>> = None,
        4 timestamp: i64 = 0,
    }
    "mutateRow" MutateRow throws 2 writes 4 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 mutations: Vec<Mutation<'a>> = Vec::new(),
    }
    "mutateRowTs" MutateRowTs throws 2 writes 5 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 mutations: Vec<Mutation<'a>> = Vec::new(),
        4 timestamp: i64 = 0,
    }
    "mutateRows" MutateRows throws 2 writes 3 {
        1 table: &'a [u8] = b"",
        2 batches: Vec<BatchMutation<'a>> = Vec::new(),
    }
    "mutateRowsTs" MutateRowsTs throws 2 writes 4 {
        1 table: &'a [u8] = b"",
        2 batches: Vec<BatchMutation<'a>> = Vec::new(),
        3 timestamp: i64 = 0,
    }
    "atomicIncrement" AtomicIncrement throws 2 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 column: &'a [u8] = b"",
        4 amount: i64 = 0,
    }
    "deleteAll" DeleteAll throws 1 writes 4 { 1 table: &'a [u8] = b"", 2 row: &'a [u8] = b"", 3 column: &'a [u8] = b"", }
    "deleteAllTs" DeleteAllTs throws 1 writes 5 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 column: &'a [u8] = b"",
        4 timestamp: i64 = 0,
    }
    "deleteAllRow" DeleteAllRow throws 1 writes 3 { 1 table: &'a [u8] = b"", 2 row: &'a [u8] = b"", }
    "increment" Increment throws 1 { 1 increment: Option<Increment<'a>> = None, }
    "incrementRows" IncrementRows throws 1 { 1 increments: Vec<Increment<'a>> = Vec::new(), }
    "deleteAllRowTs" DeleteAllRowTs throws 1 writes 4 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 timestamp: i64 = 0,
    }
    "scannerOpenWithScan" ScannerOpenWithScan throws 1 reads 3 {
        1 table: &'a [u8] = b"",
        2 scan: Option<Scan<'a>> = None,
    }
    "scannerOpen" ScannerOpen throws 1 reads 4 {
        1 table: &'a [u8] = b"",
        2 start: &'a [u8] = b"",
        3 columns: Option<Vec<&'a [u8]>> = None,
    }
    "scannerOpenWithStop" ScannerOpenWithStop throws 1 reads 5 {
        1 table: &'a [u8] = b"",
        2 start: &'a [u8] = b"",
        3 stop: &'a [u8] = b"",
        4 columns: Option<Vec<&'a [u8]>> = None,
    }
    "scannerOpenWithPrefix" ScannerOpenWithPrefix throws 1 reads 4 {
        1 table: &'a [u8] = b"",
        2 prefix: &'a [u8] = b"",
        3 columns: Option<Vec<&'a [u8]>> = None,
    }
    "scannerOpenTs" ScannerOpenTs throws 1 reads 5 {
        1 table: &'a [u8] = b"",
        2 start: &'a [u8] = b"",
        3 columns: Option<Vec<&'a [u8]>> = None,
        4 timestamp: i64 = 0,
    }
    "scannerOpenWithStopTs" ScannerOpenWithStopTs throws 1 reads 6 {
        1 table: &'a [u8] = b"",
        2 start: &'a [u8] = b"",
        3 stop: &'a [u8] = b"",
        4 columns: Option<Vec<&'a [u8]>> = None,
        5 timestamp: i64 = 0,
    }
    "scannerGet" ScannerGet throws 2 { 1 id: i32 = 0, }
    "scannerGetList" ScannerGetList throws 2 { 1 id: i32 = 0, 2 rows: i32 = 0, }
    "scannerClose" ScannerClose throws 2 { 1 id: i32 = 0, }
    "getRegionInfo" GetRegionInfo throws 1 { 1 row: &'a [u8] = b"", }
    "append" Append throws 1 { 1 append: Option<Append<'a>> = None, }
    "checkAndPut" CheckAndPut throws 2 writes 7 {
        1 table: &'a [u8] = b"",
        2 row: &'a [u8] = b"",
        3 column: &'a [u8] = b"",
        5 value: Option<&'a [u8]> = None,
        6 put: Option<Mutation<'a>> = None,
    }
    "getThriftServerType" GetThriftServerType throws 0 {}
    "getClusterId" GetClusterId throws 0 {}
    "grant" Grant throws 1 {}
    "revoke" Revoke throws 1 {}
}

/// A call of a client.
#[derive(Debug, PartialEq)]
pub(crate) enum Request<'a> {
    Hbase(Call<'a>),
    /// Of a method of Esker's own.
    Own(own::Call<'a>),
    /// Of a method of HBase's that declares so many exceptions: why it is not done.
    Refused(u8, Fail),
}

impl<'a> Request<'a> {
    /// The call of the method `name` with the arguments that follow in `source`. `None`: there is no such method.
    pub(crate) fn decode(name: &str, source: &mut Source<'a>) -> Result<Option<Request<'a>>, Fault> {
        let mut refused = None;
        let call = Call::decode(name, source, &mut refused);
        Ok(match (call, refused) {
            (Ok(Some(call)), Some(fail)) => Some(Request::Refused(call.throws(), fail)),
            // Arguments of another interface may be of any type: all methods declare an `IOError`.
            (Err(_), Some(fail)) => Some(Request::Refused(1, fail)),
            (Err(fault), None) => return Err(fault),
            (Ok(Some(call)), None) => Some(Request::Hbase(call)),
            (Ok(None), _) => own::Call::decode(name, source, &mut None)?.map(Request::Own),
        })
    }

    /// How many exceptions the method declares.
    pub(crate) fn throws(&self) -> u8 {
        match self {
            Request::Hbase(call) => call.throws(),
            Request::Own(call) => call.throws(),
            Request::Refused(throws, _) => *throws,
        }
    }
}

/// Why there is no method `name`, as far as that is known.
pub(crate) fn why_unknown(name: &[u8]) -> Option<&'static str> {
    second::is_method(name).then_some(second::OTHER)
}

#[cfg(test)]
mod tests;
