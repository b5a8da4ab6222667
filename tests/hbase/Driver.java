import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.filter.ParseFilter;

/**
 * Executes one operation on HBase for each line of the standard input, and prints a line with its answer.
 *
 * <p>A line is words with blanks between them. BYTES are "x" and hexadecimal digits, FAMILY is a name, TIME milliseconds.
 *
 * <pre>
 * create FAMILY VERSIONS TTL_SECONDS ...          a new, empty table in place of the last one; VERSIONS, TTL: 0 is no limit
 * presplit TABLE FAMILY REGIONS ROWS              a new, empty table in place of the one of this name, which stays; its regions
 *     divide ROWS rows evenly, which are numbers of 26 digits, as those of HBase's PerformanceEvaluation
 * versions FAMILY VERSIONS                        alters a family, after a major compaction
 * flush | compact
 * mutate ROW STEP ...                             several steps are one RowMutations
 *     STEP: put FAMILY QUALIFIER TIME VALUE | row TIME | family FAMILY TIME | column FAMILY QUALIFIER TIME
 *         | version FAMILY QUALIFIER TIME
 * check ROW FAMILY QUALIFIER TEST VALUE STEP ...  TEST: a CompareOperator, ABSENT or PRESENT; answers true or false
 * increment ROW FAMILY QUALIFIER NUMBER           answers the sum
 * append ROW FAMILY QUALIFIER VALUE               answers the value
 * scan START STOP VERSIONS FROM TO REVERSED LIMIT BATCH FILTER COLUMN ...
 *     COLUMN: FAMILY or FAMILY/QUALIFIER; FILTER: bytes of HBase's filter language; LIMIT of rows; BATCH: of
 *     cells in one answer; empty, 0: none
 * get ROW VERSIONS FROM TO FILTER COLUMN ...
 * </pre>
 *
 * Answers are "ok", "error", or cells: row/family/qualifier/time/value, with blanks between them.
 */
public final class Driver {
    private static final TableName NAME = TableName.valueOf("esker" + ProcessHandle.current().pid());
    private static final HexFormat HEX = HexFormat.of();

    private final Connection connection;
    private final Admin admin;
    private final Table table;
    private Iterator<String> words;

    private Driver(Connection connection) throws IOException {
        this.connection = connection;
        this.admin = connection.getAdmin();
        this.table = connection.getTable(NAME);
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = HBaseConfiguration.create();
        // A refused operation is tried again otherwise, for a minute.
        configuration.setInt("hbase.client.retries.number", 1);
        try (Connection connection = ConnectionFactory.createConnection(configuration)) {
            Driver driver = new Driver(connection);
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            BufferedWriter answers = new BufferedWriter(new OutputStreamWriter(System.out));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answers.write(driver.answer(line));
                answers.write('\n');
                if (!lines.ready()) {
                    answers.flush();
                }
            }
            answers.flush();
            driver.drop();
        }
    }

    private String answer(String line) {
        words = Arrays.asList(line.split(" ")).iterator();
        try {
            return execute(words.next());
        } catch (Exception problem) {
            System.err.println(line + ": " + problem.toString().split("\n")[0]);
            return "error";
        }
    }

    private String execute(String operation) throws Exception {
        switch (operation) {
            case "create":
                return create();
            case "presplit":
                return presplit();
            case "versions":
                compact();
                String family = words.next();
                admin.modifyColumnFamily(NAME, ColumnFamilyDescriptorBuilder
                        .newBuilder(admin.getDescriptor(NAME).getColumnFamily(family.getBytes()))
                        .setMaxVersions(versions()).build());
                return "ok";
            case "flush":
                flush();
                return "ok";
            case "compact":
                compact();
                return "ok";
            case "mutate":
                RowMutations mutations = steps(bytes());
                if (mutations.getMutations().size() > 1) {
                    table.mutateRow(mutations);
                } else if (mutations.getMutations().get(0) instanceof Put) {
                    table.put((Put) mutations.getMutations().get(0));
                } else {
                    table.delete((Delete) mutations.getMutations().get(0));
                }
                return "ok";
            case "check":
                return check();
            case "increment":
                return "" + table.incrementColumnValue(bytes(), words.next().getBytes(), bytes(), number());
            case "append":
                Append append = new Append(bytes());
                append.addColumn(words.next().getBytes(), bytes(), bytes());
                return "x" + HEX.formatHex(table.append(append).value());
            case "scan":
                return scan();
            case "get":
                return get();
            default:
                throw new IllegalArgumentException(operation);
        }
    }

    private void drop() throws IOException {
        drop(NAME);
    }

    private void drop(TableName name) throws IOException {
        if (admin.tableExists(name)) {
            if (admin.isTableEnabled(name)) {
                admin.disableTable(name);
            }
            admin.deleteTable(name);
        }
    }

    private String presplit() throws IOException {
        TableName name = TableName.valueOf(words.next());
        drop(name);
        TableDescriptorBuilder schema = TableDescriptorBuilder.newBuilder(name);
        schema.setColumnFamily(ColumnFamilyDescriptorBuilder.of(words.next()));
        int regions = (int) number();
        long rows = number();
        byte[][] splits = new byte[regions - 1][];
        for (int i = 0; i < splits.length; i++) {
            splits[i] = String.format("%026d", (i + 1) * rows / regions).getBytes();
        }
        if (splits.length == 0) {
            admin.createTable(schema.build());
        } else {
            admin.createTable(schema.build(), splits);
        }
        return "ok";
    }

    private String create() throws IOException {
        drop();
        TableDescriptorBuilder schema = TableDescriptorBuilder.newBuilder(NAME);
        while (words.hasNext()) {
            ColumnFamilyDescriptorBuilder family = ColumnFamilyDescriptorBuilder.newBuilder(words.next().getBytes());
            family.setNewVersionBehavior(true).setMaxVersions(versions());
            int ttl = (int) number();
            if (ttl > 0) {
                family.setTimeToLive(ttl);
            }
            schema.setColumnFamily(family.build());
        }
        admin.createTable(schema.build());
        return "ok";
    }

    private void flush() throws IOException {
        for (RegionInfo region : admin.getRegions(NAME)) {
            admin.flushRegion(region.getRegionName());
        }
    }

    private void compact() throws Exception {
        flush();
        for (RegionInfo region : admin.getRegions(NAME)) {
            admin.majorCompactRegion(region.getRegionName());
            do {
                Thread.sleep(20);
            } while (admin.getCompactionStateForRegion(region.getRegionName()) != CompactionState.NONE);
        }
    }

    private String check() throws IOException {
        byte[] row = bytes();
        byte[] family = words.next().getBytes();
        byte[] qualifier = bytes();
        String test = words.next();
        byte[] value = bytes();
        CheckAndMutate.Builder builder = CheckAndMutate.newBuilder(row);
        switch (test) {
            case "ABSENT":
                builder.ifNotExists(family, qualifier);
                break;
            case "PRESENT":
                builder.ifMatches(family, qualifier, CompareOperator.NOT_EQUAL, null);
                break;
            default:
                builder.ifMatches(family, qualifier, CompareOperator.valueOf(test), value);
        }
        return "" + table.checkAndMutate(builder.build(steps(row))).isSuccess();
    }

    private RowMutations steps(byte[] row) throws IOException {
        RowMutations mutations = new RowMutations(row);
        while (words.hasNext()) {
            String step = words.next();
            if (step.equals("put")) {
                mutations.add(new Put(row).addColumn(words.next().getBytes(), bytes(), number(), bytes()));
                continue;
            }
            Delete delete = new Delete(row);
            switch (step) {
                case "row":
                    delete = new Delete(row, number());
                    break;
                case "family":
                    delete.addFamily(words.next().getBytes(), number());
                    break;
                case "column":
                    delete.addColumns(words.next().getBytes(), bytes(), number());
                    break;
                case "version":
                    delete.addColumn(words.next().getBytes(), bytes(), number());
                    break;
                default:
                    throw new IllegalArgumentException(step);
            }
            mutations.add(delete);
        }
        return mutations;
    }

    private String scan() throws IOException {
        Scan scan = new Scan().withStartRow(bytes()).withStopRow(bytes()).readVersions(versions());
        scan.setTimeRange(number(), number()).setReversed(Boolean.parseBoolean(words.next()));
        // Refused backward otherwise, with some filters.
        scan.setLoadColumnFamiliesOnDemand(false);
        int limit = (int) number();
        if (limit > 0) {
            scan.setLimit(limit);
        }
        int batch = (int) number();
        if (batch > 0) {
            scan.setBatch(batch);
        }
        byte[] filter = bytes();
        if (filter.length > 0) {
            scan.setFilter(new ParseFilter().parseFilterString(filter));
        }
        while (words.hasNext()) {
            byte[][] column = column();
            if (column.length == 1) {
                scan.addFamily(column[0]);
            } else {
                scan.addColumn(column[0], column[1]);
            }
        }
        List<String> cells = new ArrayList<>();
        try (ResultScanner results = table.getScanner(scan)) {
            for (Result result : results) {
                show(result, cells);
            }
        }
        return String.join(" ", cells);
    }

    private String get() throws IOException {
        Get get = new Get(bytes()).readVersions(versions()).setTimeRange(number(), number());
        // Rows without cells in the family of a filter are left out otherwise, whatever the filter says.
        get.setLoadColumnFamiliesOnDemand(false);
        byte[] filter = bytes();
        if (filter.length > 0) {
            get.setFilter(new ParseFilter().parseFilterString(filter));
        }
        while (words.hasNext()) {
            byte[][] column = column();
            if (column.length == 1) {
                get.addFamily(column[0]);
            } else {
                get.addColumn(column[0], column[1]);
            }
        }
        List<String> cells = new ArrayList<>();
        show(table.get(get), cells);
        return String.join(" ", cells);
    }

    private static void show(Result result, List<String> cells) {
        for (Cell cell : result.listCells() == null ? List.<Cell>of() : result.listCells()) {
            cells.add(hex(CellUtil.cloneRow(cell)) + "/" + new String(CellUtil.cloneFamily(cell)) + "/"
                    + hex(CellUtil.cloneQualifier(cell)) + "/" + cell.getTimestamp() + "/" + hex(CellUtil.cloneValue(cell)));
        }
    }

    private static String hex(byte[] bytes) {
        return "x" + HEX.formatHex(bytes);
    }

    private byte[] bytes() {
        return HEX.parseHex(words.next().substring(1));
    }

    private byte[][] column() {
        String[] parts = words.next().split("/");
        return parts.length == 1
                ? new byte[][] {parts[0].getBytes()}
                : new byte[][] {parts[0].getBytes(), HEX.parseHex(parts[1].substring(1))};
    }

    private long number() {
        return Long.parseLong(words.next());
    }

    private int versions() {
        int versions = (int) number();
        return versions == 0 ? Integer.MAX_VALUE : versions;
    }
}
