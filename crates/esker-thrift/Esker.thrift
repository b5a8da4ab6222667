/*
 * What a server of `esker thrift` or `esker serve --thrift` can do beside HBase's first Thrift interface (Hbase.thrift), at the same
 * port and on the same connections: a client of this service may share the transport and the protocol of an `Hbase` client.
 *
 * HBase answers these methods with a TApplicationException (UNKNOWN_METHOD), after which the connection can be used as before. To learn
 * which kind of server it is, call eskerVersion.
 *
 * docs/thrift.md has limits and rights. Texts are UTF-8.
 */

namespace cpp esker.thrift.generated
namespace go esker
namespace java esker.thrift.generated
namespace py esker_thrift

/** Why a call has failed. An IOError that a method of HBase's throws has it too, as the field 3, unless it is FAILED. */
enum ErrorKind {
  /** The call is all right, but cannot be done: the store has failed, or the answer would be too long. */
  FAILED = 1,
  /** What was given cannot be: a name, a row, a timestamp, a schema. */
  INVALID = 2,
  /** The client may not do this. */
  DENIED = 3,
  NO_TABLE = 4,
  TABLE_EXISTS = 5,
  NO_FAMILY = 6,
  NO_NAMESPACE = 7,
  NAMESPACE_EXISTS = 8,
  /** The namespace still has tables. */
  NAMESPACE_IN_USE = 9,
  /** The table is disabled. */
  DISABLED = 10,
  /** The schema was changed since it was read: read it again. */
  SCHEMA_CHANGED = 11,
}

/** Why a call has failed. */
exception EskerError {
  1: string message,
  2: ErrorKind kind,
}

enum MutationKind {
  /** Writes a cell: family, qualifier, value. */
  PUT = 0,
  /** Deletes the cells of the row with timestamps up to the given one, and with it. */
  DELETE_ROW = 1,
  /** The same for a family. */
  DELETE_FAMILY = 2,
  /** The same for a column: family, qualifier. */
  DELETE_COLUMN = 3,
  /** Deletes the cell of a column with this timestamp, and no other. The timestamp must be given. */
  DELETE_VERSION = 4,
  /** Adds `by` to the number in the latest cell of a column, 8 bytes, big-endian: family, qualifier, by. No timestamp is given. */
  INCREMENT = 5,
  /** Appends the value to that of the latest cell of a column: family, qualifier, value. No timestamp is given. */
  APPEND = 6,
}

/**
 * A change of a row. A qualifier or value that is not given is empty, and `by` is 0. One that the kind does not have must not be given.
 */
struct EskerMutation {
  1: MutationKind kind = MutationKind.PUT,
  2: optional string family,
  3: optional binary qualifier,
  4: optional binary value,
  /**
   * In milliseconds since 1970. Not given: the time of the call. Of several such puts of one column, the last one has this time, and
   * each earlier one a millisecond less: the call waits until these have come. A call has at most 1,000 of one column.
   */
  5: optional i64 timestamp,
  6: optional i64 by,
}

/** Changes of a row, which are done in their order: a put after a delete is not removed by it. */
struct EskerRow {
  1: binary row,
  2: list<EskerMutation> mutations,
}

enum ConditionKind {
  /** The column has no cell. No value is given. */
  ABSENT = 0,
  /** The column has a cell. No value is given. */
  PRESENT = 1,
  /** The value of the column's latest cell compares with the given one in this way, byte by byte. A column without a cell meets none of these. */
  EQUAL = 2,
  NOT_EQUAL = 3,
  LESS = 4,
  LESS_OR_EQUAL = 5,
  GREATER = 6,
  GREATER_OR_EQUAL = 7,
}

/** A condition on the latest cell of a column. */
struct EskerCondition {
  1: ConditionKind kind = ConditionKind.ABSENT,
  2: string family,
  3: binary qualifier,
  4: optional binary value,
}

/** What a scanner reads. */
struct EskerScan {
  /** The first row; backward, the last one, with it. Empty: from the end of the table. */
  1: binary start,
  /** The row at which it ends, without it. Empty: the other end of the table. */
  2: binary stop,
  /** Timestamps from this one on, and below the other one. Not given: there is no such bound. */
  3: optional i64 fromTime,
  4: optional i64 untilTime,
  /** `family` or `family:qualifier`. Not given: all. */
  5: optional list<binary> columns,
  /** In HBase's filter language. */
  6: optional binary filterString,
  /** More cells of a row than these are another result. 0: rows are whole. */
  7: i32 batchSize = 0,
  8: bool reversed = false,
  /** So many versions of each column, of those that the family keeps and the filter lets through. */
  9: i32 versions = 1,
  /** Shows deletes too, in front of the cells that they may hide, as long as no merge has removed them. */
  10: bool deletes = false,
}

enum DeleteKind {
  ROW = 1,
  FAMILY = 2,
  COLUMN = 3,
  VERSION = 4,
}

struct EskerValue {
  1: binary value,
  /** In milliseconds since 1970. */
  2: i64 timestamp,
}

/** A version of a column, or a delete. */
struct EskerCell {
  /** `family:qualifier`; of the delete of a family `family:`, and of that of a row `:`. */
  1: binary columnName,
  2: EskerValue cell,
  /** Not given: it is no delete. */
  3: optional DeleteKind deleted,
}

/** A row, or a part of one. */
struct EskerResult {
  1: binary row,
  /** In their order: families and qualifiers, and of each column the latest version first. */
  3: list<EskerCell> cells,
}

service Esker {
  /** The version of Esker. */
  string eskerVersion(),

  /** The namespaces, sorted. */
  list<string> eskerNamespaces() throws (1: EskerError error),

  void eskerCreateNamespace(1: string name) throws (1: EskerError error),

  /** Removes a namespace that has no tables. */
  void eskerDropNamespace(1: string name) throws (1: EskerError error),

  /** The schema of a table as XML: access groups, families and their rules, the numbers of both, and the schema's version. */
  string eskerSchema(1: string table) throws (1: EskerError error),

  /** Makes a table. Numbers and a version in the schema do not count. */
  void eskerCreateTable(1: string table, 2: string schema) throws (1: EskerError error),

  /**
   * Gives a table another schema, made from what eskerSchema has returned: the call fails with SCHEMA_CHANGED if the table has another
   * version by now. A schema without a version replaces the table's, whatever its version. Returns when new indexes are built. If that fails,
   * the table has the schema, and eskerRebuildIndexes goes on.
   */
  void eskerAlterTable(1: string table, 2: string schema) throws (1: EskerError error),

  /** Gives a table another name, also in another namespace. */
  void eskerRenameTable(1: string table, 2: string to) throws (1: EskerError error),

  /** Removes a table, enabled or not. */
  void eskerDropTable(1: string table) throws (1: EskerError error),

  /** Removes all cells and deletes of an enabled table, whatever their timestamps, all at once. Its schema stays. */
  void eskerTruncateTable(1: string table) throws (1: EskerError error),

  /** Enters into the indexes of a table what they lack, and removes what is of no use in them. */
  void eskerRebuildIndexes(1: string table) throws (1: EskerError error),

  /** Changes rows, all of them at once or none. If there are increments or appends among the changes, no row is there twice. */
  void eskerMutateRows(1: string table, 2: list<EskerRow> rows) throws (1: EskerError error),

  /** Changes a row if it meets all conditions then; nothing comes in between. Returns whether it did. At most 1,000 conditions. */
  bool eskerCheckAndMutate(1: string table, 2: binary row, 3: list<EskerCondition> conditions, 4: list<EskerMutation> mutations)
      throws (1: EskerError error),

  /** Opens a scanner. It counts towards the connection's limit of scanners, as those of HBase's methods do. */
  i32 eskerScannerOpen(1: string table, 2: EskerScan scan) throws (1: EskerError error),

  /** The next results of a scanner, at most so many. None: it is at its end. */
  list<EskerResult> eskerScannerGet(1: i32 scanner, 2: i32 rows) throws (1: EskerError error),

  void eskerScannerClose(1: i32 scanner) throws (1: EskerError error),
}
