//! HBase's second Thrift interface (`hbase.thrift`, the service `THBaseService`), which this server does not have. Its clients are told.
//!
//! Some of its methods have the name of one of the first interface, and other arguments.

use crate::fail::Fail;
use crate::wire::{Field, Kind};

/// What a client of the second interface is told.
pub(super) const OTHER: &str = "this is a method of HBase's second Thrift interface (hbase.thrift, THBaseService); this server has \
                                the first one (Hbase.thrift)";

/// Methods whose names the first interface has too, and a field that they have and those of the first interface do not.
const SHARED: [(&str, i16, Kind); 10] = [
    ("append", 2, Kind::Struct),
    ("checkAndPut", 4, Kind::Bytes),
    ("createTable", 1, Kind::Struct),
    ("deleteTable", 1, Kind::Struct),
    ("disableTable", 1, Kind::Struct),
    ("enableTable", 1, Kind::Struct),
    ("get", 2, Kind::Struct),
    ("increment", 2, Kind::Struct),
    ("isTableEnabled", 1, Kind::Struct),
    ("mutateRow", 2, Kind::Struct),
];

/// The other methods.
const METHODS: [&[u8]; 38] = [
    b"addColumnFamily",
    b"checkAndDelete",
    b"checkAndMutate",
    b"clearSlowLogResponses",
    b"closeScanner",
    b"createNamespace",
    b"deleteColumnFamily",
    b"deleteMultiple",
    b"deleteNamespace",
    b"deleteSingle",
    b"exists",
    b"existsAll",
    b"getAllRegionLocations",
    b"getMultiple",
    b"getNamespaceDescriptor",
    b"getRegionLocation",
    b"getScannerResults",
    b"getScannerRows",
    b"getSlowLogResponses",
    b"getTableDescriptor",
    b"getTableDescriptors",
    b"getTableDescriptorsByNamespace",
    b"getTableDescriptorsByPattern",
    b"getTableNamesByNamespace",
    b"getTableNamesByPattern",
    b"isTableAvailable",
    b"isTableAvailableWithSplit",
    b"isTableDisabled",
    b"listNamespaceDescriptors",
    b"listNamespaces",
    b"modifyColumnFamily",
    b"modifyNamespace",
    b"modifyTable",
    b"openScanner",
    b"put",
    b"putMultiple",
    b"tableExists",
    b"truncateTable",
];

/// Whether it alone has the method `name`.
pub(super) fn is_method(name: &[u8]) -> bool {
    METHODS.contains(&name)
}

/// Why a call of `name` must be refused that has `field`: it is one of the second interface.
pub(super) fn told_by(name: &str, field: Field) -> Option<Fail> {
    SHARED.contains(&(name, field.id, field.kind)).then(|| Fail::io(OTHER))
}
