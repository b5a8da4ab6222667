// A client of HBase's Thrift interface in Java, with the classes that `thrift --gen java Hbase.thrift` makes: framed transport,
// binary protocol. docs/thrift.md says how it is built.
//
//   java -cp ... Stations HOST PORT
//
// It makes the table `stations`, uses it, checks each answer, and deletes it.
import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.hadoop.hbase.thrift.generated.AlreadyExists;
import org.apache.hadoop.hbase.thrift.generated.BatchMutation;
import org.apache.hadoop.hbase.thrift.generated.ColumnDescriptor;
import org.apache.hadoop.hbase.thrift.generated.Hbase;
import org.apache.hadoop.hbase.thrift.generated.IOError;
import org.apache.hadoop.hbase.thrift.generated.Mutation;
import org.apache.hadoop.hbase.thrift.generated.TRowResult;
import org.apache.hadoop.hbase.thrift.generated.TScan;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.layered.TFramedTransport;

public final class Stations {
    private static final int TIMEOUT_MS = 20_000;
    private static final ByteBuffer TABLE = bytes("stations");
    // The methods take attributes of the operation. None has an effect in Esker.
    private static final Map<ByteBuffer, ByteBuffer> NO_ATTRIBUTES = Map.of();

    public static void main(String[] arguments) {
        if (arguments.length != 2) {
            System.err.println("usage: Stations HOST PORT");
            System.exit(2);
        }
        try (var transport = new TFramedTransport(new TSocket(arguments[0], Integer.parseInt(arguments[1]), TIMEOUT_MS))) {
            transport.open();
            useTable(new Hbase.Client(new TBinaryProtocol(transport)));
        } catch (WrongAnswer | TException | NumberFormatException error) {
            System.err.println("FAILED: " + error);
            System.exit(1);
        }
        System.out.println("Java, framed, binary: all answers are right");
    }

    private static void useTable(Hbase.Client hbase) throws TException, WrongAnswer {
        var families = List.of(family("weather:", 3), family("counts:", 1));
        hbase.createTable(TABLE, families);
        same("a table that exists is not made again", AlreadyExists.class, errorOf(() -> hbase.createTable(TABLE, families)));
        same("the tables", List.of(TABLE), hbase.getTableNames());

        // The changes of all rows count at once.
        hbase.mutateRows(TABLE, List.of(
            new BatchMutation(bytes("oslo-7"), List.of(put("weather:sky", "clear"), put("weather:temperature", "-3.5"))),
            new BatchMutation(bytes("oslo-8"), List.of(put("weather:temperature", "-4.0"))),
            new BatchMutation(bytes("rome-1"), List.of(put("weather:temperature", "14.5")))), NO_ATTRIBUTES);
        same("a row", List.of("oslo-7 {weather:sky=clear, weather:temperature=-3.5}"),
            texts(hbase.getRow(TABLE, bytes("oslo-7"), NO_ATTRIBUTES)));
        same("a row that does not exist", List.of(), hbase.getRow(TABLE, bytes("oslo-9"), NO_ATTRIBUTES));

        same("a new counter", 1L, hbase.atomicIncrement(TABLE, bytes("oslo-7"), bytes("counts:readings"), 1));
        same("a counter", 500L, hbase.atomicIncrement(TABLE, bytes("oslo-7"), bytes("counts:readings"), 499));
        // A counter is a column: eight bytes, the most significant one first.
        var counter = hbase.get(TABLE, bytes("oslo-7"), bytes("counts:readings"), NO_ATTRIBUTES);
        same("a counter's cells", 1, counter.size());
        same("a counter's bytes", ByteBuffer.allocate(Long.BYTES).putLong(0, 500), counter.get(0).value);

        var scan = new TScan().setFilterString(bytes("PrefixFilter('oslo-') AND QualifierFilter(=, 'binary:temperature')"));
        same("a scan", List.of("oslo-7 {weather:temperature=-3.5}", "oslo-8 {weather:temperature=-4.0}"), scan(hbase, scan));

        hbase.deleteAllRow(TABLE, bytes("oslo-8"), NO_ATTRIBUTES);
        hbase.deleteAll(TABLE, bytes("oslo-7"), bytes("weather:sky"), NO_ATTRIBUTES);
        var weather = new TScan().setColumns(List.of(bytes("weather")));
        same("what is left", List.of("oslo-7 {weather:temperature=-3.5}", "rome-1 {weather:temperature=14.5}"), scan(hbase, weather));

        same("an enabled table is not deleted", IOError.class, errorOf(() -> hbase.deleteTable(TABLE)));
        hbase.disableTable(TABLE);
        same("is enabled", false, hbase.isTableEnabled(TABLE));
        hbase.deleteTable(TABLE);
        same("the tables at the end", List.of(), hbase.getTableNames());
    }

    // All rows of a scan. An empty list is its end.
    private static List<String> scan(Hbase.Client hbase, TScan scan) throws TException {
        int scanner = hbase.scannerOpenWithScan(TABLE, scan, NO_ATTRIBUTES);
        try {
            var rows = new ArrayList<String>();
            List<TRowResult> some;
            while (!(some = hbase.scannerGetList(scanner, 100)).isEmpty()) {
                rows.addAll(texts(some));
            }
            return rows;
        } finally {
            hbase.scannerClose(scanner);
        }
    }

    private static ColumnDescriptor family(String name, int maxVersions) {
        return new ColumnDescriptor().setName(bytes(name)).setMaxVersions(maxVersions);
    }

    private static Mutation put(String column, String value) {
        return new Mutation().setColumn(bytes(column)).setValue(bytes(value));
    }

    private static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(UTF_8));
    }

    private static String text(ByteBuffer bytes) {
        return UTF_8.decode(bytes.duplicate()).toString();
    }

    private static List<String> texts(List<TRowResult> rows) {
        var texts = new ArrayList<String>();
        for (var row : rows) {
            var columns = new TreeMap<String, String>();
            row.columns.forEach((column, cell) -> columns.put(text(column), text(cell.value)));
            texts.add(text(row.row) + " " + columns);
        }
        return texts;
    }

    private interface Call {
        void make() throws TException;
    }

    private static Class<?> errorOf(Call call) {
        try {
            call.make();
            return null;
        } catch (TException error) {
            return error.getClass();
        }
    }

    private static final class WrongAnswer extends Exception {
        WrongAnswer(String what, Object wanted, Object got) {
            super(what + ": wanted " + wanted + ", got " + got);
        }
    }

    private static void same(String what, Object wanted, Object got) throws WrongAnswer {
        if (!Objects.equals(wanted, got)) {
            throw new WrongAnswer(what, wanted, got);
        }
    }
}
