// A client of HBase's Thrift interface in C++, with the code that `thrift --gen cpp Hbase.thrift` makes: buffered transport,
// binary protocol. docs/thrift.md says how it is built.
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

#include "Hbase.h"

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
    HbaseClient hbase(std::make_shared<TBinaryProtocol>(transport));
    use_table(hbase);
  } catch (const std::exception& error) {
    std::cerr << "FAILED: " << error.what() << '\n';
    return 1;
  }
  std::cout << "C++, buffered, binary: all answers are right\n";
}
