// A client of HBase's Thrift interface and of Esker's own methods in C++, with the code that `thrift --gen cpp` makes of Hbase.thrift and
// Esker.thrift: buffered transport, binary protocol, both on one connection. docs/thrift.md says how it is built.
//
//   stations HOST PORT
//
// It makes the table `stations`, uses it, checks each answer, and deletes it.
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include "Esker.h"
#include "Hbase.h"

namespace own = esker::thrift::generated;
using namespace apache::hadoop::hbase::thrift;
using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::transport::TBufferedTransport;
using apache::thrift::transport::TSocket;

namespace {

constexpr int TIMEOUT_MS = 20'000;
const std::string TABLE = "stations";
// The methods take attributes of the operation. None has an effect in Esker.
const std::map<std::string, std::string> NO_ATTRIBUTES;

void check(bool is_right, const std::string& what) {
  if (!is_right) throw std::runtime_error("wrong answer: " + what);
}

ColumnDescriptor family(const std::string& name, int max_versions) {
  ColumnDescriptor family;
  family.__set_name(name);
  family.__set_maxVersions(max_versions);
  return family;
}

Mutation put(const std::string& column, const std::string& value) {
  Mutation put;
  put.__set_column(column);
  put.__set_value(value);
  return put;
}

BatchMutation changes(const std::string& row, const std::vector<Mutation>& mutations) {
  BatchMutation changes;
  changes.__set_row(row);
  changes.__set_mutations(mutations);
  return changes;
}

// Rows as they are compared: by row, by column, the values.
using Rows = std::map<std::string, std::map<std::string, std::string>>;

Rows values(const std::vector<TRowResult>& results) {
  Rows rows;
  for (const auto& result : results)
    for (const auto& [column, cell] : result.columns) rows[result.row][column] = cell.value;
  return rows;
}

// All rows of a scan. An empty list is its end.
Rows scan(HbaseClient& hbase, const TScan& what) {
  const ScannerID scanner = hbase.scannerOpenWithScan(TABLE, what, NO_ATTRIBUTES);
  std::vector<TRowResult> all, some;
  for (hbase.scannerGetList(some, scanner, 100); !some.empty(); hbase.scannerGetList(some, scanner, 100))
    all.insert(all.end(), some.begin(), some.end());
  hbase.scannerClose(scanner);
  return values(all);
}

template <typename Error, typename Call>
bool fails_with(Call call) {
  try {
    call();
  } catch (const Error&) {
    return true;
  }
  return false;
}

void use_table(HbaseClient& hbase) {
  const std::vector<ColumnDescriptor> families{family("weather:", 3), family("counts:", 1)};
  hbase.createTable(TABLE, families);
  check(fails_with<AlreadyExists>([&] { hbase.createTable(TABLE, families); }), "a table that exists is made again");
  std::vector<Text> tables;
  hbase.getTableNames(tables);
  check(tables == std::vector<Text>{TABLE}, "the tables");

  // The changes of all rows count at once.
  hbase.mutateRows(TABLE,
                   {changes("oslo-7", {put("weather:sky", "clear"), put("weather:temperature", "-3.5")}),
                    changes("oslo-8", {put("weather:temperature", "-4.0")}),
                    changes("rome-1", {put("weather:temperature", "14.5")})},
                   NO_ATTRIBUTES);
  std::vector<TRowResult> row;
  hbase.getRow(row, TABLE, "oslo-7", NO_ATTRIBUTES);
  check(values(row) == Rows{{"oslo-7", {{"weather:sky", "clear"}, {"weather:temperature", "-3.5"}}}}, "a row");
  hbase.getRow(row, TABLE, "oslo-9", NO_ATTRIBUTES);
  check(row.empty(), "a row that does not exist");

  check(hbase.atomicIncrement(TABLE, "oslo-7", "counts:readings", 1) == 1, "a new counter");
  check(hbase.atomicIncrement(TABLE, "oslo-7", "counts:readings", 499) == 500, "a counter");
  // A counter is a column: eight bytes, the most significant one first.
  std::vector<TCell> cells;
  hbase.get(cells, TABLE, "oslo-7", "counts:readings", NO_ATTRIBUTES);
  check(cells.size() == 1 && cells[0].value == std::string("\0\0\0\0\0\0\x01\xf4", 8), "a counter's bytes");

  TScan temperatures;
  temperatures.__set_filterString("PrefixFilter('oslo-') AND QualifierFilter(=, 'binary:temperature')");
  check(scan(hbase, temperatures) ==
            Rows{{"oslo-7", {{"weather:temperature", "-3.5"}}}, {"oslo-8", {{"weather:temperature", "-4.0"}}}},
        "a scan");

  hbase.deleteAllRow(TABLE, "oslo-8", NO_ATTRIBUTES);
  hbase.deleteAll(TABLE, "oslo-7", "weather:sky", NO_ATTRIBUTES);
  TScan weather;
  weather.__set_columns({"weather"});
  check(scan(hbase, weather) ==
            Rows{{"oslo-7", {{"weather:temperature", "-3.5"}}}, {"rome-1", {{"weather:temperature", "14.5"}}}},
        "what is left");

  check(fails_with<IOError>([&] { hbase.deleteTable(TABLE); }), "an enabled table is deleted");
  hbase.disableTable(TABLE);
  check(!hbase.isTableEnabled(TABLE), "is enabled");
  hbase.deleteTable(TABLE);
  hbase.getTableNames(tables);
  check(tables.empty(), "the tables at the end");
}

own::EskerMutation put_at(const std::string& qualifier, const std::string& value, int64_t timestamp) {
  own::EskerMutation put;
  put.__set_family("weather");
  put.__set_qualifier(qualifier);
  put.__set_value(value);
  put.__set_timestamp(timestamp);
  return put;
}

// What HBase's interface cannot do, beside what it can.
void use_own_methods(own::EskerClient& esker, HbaseClient& hbase) {
  std::string schema, version;
  esker.eskerVersion(version);
  check(!version.empty(), "the version");
  hbase.createTable(TABLE, {family("weather:", 3)});
  esker.eskerSchema(schema, TABLE);
  std::string more = schema;
  const std::string behind = "</AccessGroup>";
  more.replace(more.find(behind), behind.size(), behind + "<AccessGroup name=\"g\"><ColumnFamily name=\"n\" counter=\"true\"/></AccessGroup>");
  esker.eskerAlterTable(TABLE, more);
  try {
    esker.eskerAlterTable(TABLE, schema);
    check(false, "a schema that was read before a change");
  } catch (const own::EskerError& error) {
    check(error.kind == own::ErrorKind::SCHEMA_CHANGED, "the kind of an error");
  }
  check(hbase.atomicIncrement(TABLE, "oslo-7", "n:readings", 2) == 2, "a counter of another access group");

  own::EskerRow row;
  row.__set_row("oslo-7");
  row.__set_mutations({put_at("temperature", "-3.5", 1), put_at("temperature", "-4.0", 2)});
  esker.eskerMutateRows(TABLE, {row});
  own::EskerCondition latest;
  latest.__set_kind(own::ConditionKind::LESS);
  latest.__set_family("weather");
  latest.__set_qualifier("temperature");
  latest.__set_value("-5");
  own::EskerMutation erase;
  erase.__set_kind(own::MutationKind::DELETE_VERSION);
  erase.__set_family("weather");
  erase.__set_qualifier("temperature");
  erase.__set_timestamp(1);
  check(esker.eskerCheckAndMutate(TABLE, "oslo-7", {latest}, {erase, put_at("sky", "clear", 3)}), "a check");

  own::EskerScan all;
  all.__set_columns({"weather"});
  all.__set_versions(10);
  all.__set_deletes(true);
  const int32_t scanner = esker.eskerScannerOpen(TABLE, all);
  std::vector<own::EskerResult> results;
  esker.eskerScannerGet(results, scanner, 10);
  esker.eskerScannerClose(scanner);
  check(results.size() == 1 && results[0].cells.size() == 3, "a scan of versions and deletes");
  const auto& cells = results[0].cells;
  check(cells[0].columnName == "weather:sky" && !cells[0].__isset.deleted, "a cell");
  check(cells[1].__isset.deleted && cells[1].deleted == own::DeleteKind::VERSION && cells[1].cell.timestamp == 1, "a delete");
  check(cells[2].cell.value == "-4.0" && cells[2].cell.timestamp == 2, "a version");

  esker.eskerCreateNamespace("north");
  esker.eskerRenameTable(TABLE, "north:stations");
  hbase.disableTable("north:stations");
  hbase.deleteTable("north:stations");
  esker.eskerDropNamespace("north");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: stations HOST PORT\n";
    return 2;
  }
  try {
    auto socket = std::make_shared<TSocket>(arguments[1], std::stoi(arguments[2]));
    socket->setConnTimeout(TIMEOUT_MS);
    socket->setRecvTimeout(TIMEOUT_MS);
    socket->setSendTimeout(TIMEOUT_MS);
    auto transport = std::make_shared<TBufferedTransport>(socket);
    transport->open();
    auto protocol = std::make_shared<TBinaryProtocol>(transport);
    HbaseClient hbase(protocol);
    own::EskerClient esker(protocol);
    use_table(hbase);
    use_own_methods(esker, hbase);
  } catch (const std::exception& error) {
    std::cerr << "FAILED: " << error.what() << '\n';
    return 1;
  }
  std::cout << "C++, buffered, binary: all answers are right\n";
}
