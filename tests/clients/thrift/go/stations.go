// A client of HBase's Thrift interface in Go, with the package that `thrift --gen go Hbase.thrift` makes: buffered transport,
// compact protocol. docs/thrift.md says how it is built.
//
//	stations HOST:PORT
//
// It makes the table `stations`, uses it, checks each answer, and deletes it.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"stations/hbase"
)

const (
	patience = 20 * time.Second
	table    = "stations"
)

// The methods take attributes of the operation. None has an effect in Esker.
var noAttributes map[hbase.Text]hbase.Text

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: stations HOST:PORT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("Go, buffered, compact: all answers are right")
}

func run(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	configuration := &thrift.TConfiguration{ConnectTimeout: patience, SocketTimeout: patience}
	transport := thrift.NewTBufferedTransport(thrift.NewTSocketConf(address, configuration), 16<<10)
	if err := transport.Open(); err != nil {
		return err
	}
	defer transport.Close()
	protocol := thrift.NewTCompactProtocolConf(transport, configuration)
	return useTable(ctx, hbase.NewHbaseClient(thrift.NewTStandardClient(protocol, protocol)))
}

func useTable(ctx context.Context, client *hbase.HbaseClient) error {
	families := []*hbase.ColumnDescriptor{family("weather:", 3), family("counts:", 1)}
	if err := client.CreateTable(ctx, table, families); err != nil {
		return fmt.Errorf("createTable: %w", err)
	}
	var exists *hbase.AlreadyExists
	if err := client.CreateTable(ctx, table, families); !errors.As(err, &exists) {
		return fmt.Errorf("a table that exists is made again: %v", err)
	}
	if err := tables(ctx, client, table); err != nil {
		return err
	}

	// The changes of all rows count at once.
	err := client.MutateRows(ctx, table, []*hbase.BatchMutation{
		{Row: "oslo-7", Mutations: []*hbase.Mutation{put("weather:sky", "clear"), put("weather:temperature", "-3.5")}},
		{Row: "oslo-8", Mutations: []*hbase.Mutation{put("weather:temperature", "-4.0")}},
		{Row: "rome-1", Mutations: []*hbase.Mutation{put("weather:temperature", "14.5")}},
	}, noAttributes)
	if err != nil {
		return fmt.Errorf("mutateRows: %w", err)
	}
	row, err := client.GetRow(ctx, table, "oslo-7", noAttributes)
	if err := same("getRow", err, texts(row), []string{"oslo-7 map[weather:sky:clear weather:temperature:-3.5]"}); err != nil {
		return err
	}
	row, err = client.GetRow(ctx, table, "oslo-9", noAttributes)
	if err := same("getRow without a row", err, len(row), 0); err != nil {
		return err
	}

	count, err := client.AtomicIncrement(ctx, table, "oslo-7", "counts:readings", 1)
	if err := same("a new counter", err, count, int64(1)); err != nil {
		return err
	}
	count, err = client.AtomicIncrement(ctx, table, "oslo-7", "counts:readings", 499)
	if err := same("a counter", err, count, int64(500)); err != nil {
		return err
	}
	// A counter is a column: eight bytes, the most significant one first.
	cells, err := client.Get(ctx, table, "oslo-7", "counts:readings", noAttributes)
	if err := same("a counter's cells", err, len(cells), 1); err != nil {
		return err
	}
	if err := same("a counter's bytes", nil, []byte(cells[0].Value), binary.BigEndian.AppendUint64(nil, 500)); err != nil {
		return err
	}

	filter := hbase.Text("PrefixFilter('oslo-') AND QualifierFilter(=, 'binary:temperature')")
	found, err := scan(ctx, client, &hbase.TScan{FilterString: &filter})
	oslo := []string{"oslo-7 map[weather:temperature:-3.5]", "oslo-8 map[weather:temperature:-4.0]"}
	if err := same("a scan", err, found, oslo); err != nil {
		return err
	}

	if err := client.DeleteAllRow(ctx, table, "oslo-8", noAttributes); err != nil {
		return fmt.Errorf("deleteAllRow: %w", err)
	}
	if err := client.DeleteAll(ctx, table, "oslo-7", "weather:sky", noAttributes); err != nil {
		return fmt.Errorf("deleteAll: %w", err)
	}
	found, err = scan(ctx, client, &hbase.TScan{Columns: []hbase.Text{"weather"}})
	left := []string{"oslo-7 map[weather:temperature:-3.5]", "rome-1 map[weather:temperature:14.5]"}
	if err := same("what is left", err, found, left); err != nil {
		return err
	}

	var ioError *hbase.IOError
	if err := client.DeleteTable(ctx, table); !errors.As(err, &ioError) {
		return fmt.Errorf("an enabled table is deleted: %v", err)
	}
	if err := client.DisableTable(ctx, hbase.Bytes(table)); err != nil {
		return fmt.Errorf("disableTable: %w", err)
	}
	enabled, err := client.IsTableEnabled(ctx, hbase.Bytes(table))
	if err := same("isTableEnabled", err, enabled, false); err != nil {
		return err
	}
	if err := client.DeleteTable(ctx, table); err != nil {
		return fmt.Errorf("deleteTable: %w", err)
	}
	return tables(ctx, client)
}

// tables fails if the names of the tables are not these.
func tables(ctx context.Context, client *hbase.HbaseClient, wanted ...hbase.Text) error {
	names, err := client.GetTableNames(ctx)
	return same("getTableNames", err, append([]hbase.Text(nil), names...), wanted)
}

// scan reads all rows of a scan. An empty list is its end.
func scan(ctx context.Context, client *hbase.HbaseClient, what *hbase.TScan) (found []string, err error) {
	scanner, err := client.ScannerOpenWithScan(ctx, table, what, noAttributes)
	if err != nil {
		return nil, err
	}
	for {
		rows, err := client.ScannerGetList(ctx, scanner, 100)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return found, client.ScannerClose(ctx, scanner)
		}
		found = append(found, texts(rows)...)
	}
}

// family starts from the IDL's default values, which a literal does not have.
func family(name hbase.Text, maxVersions int32) *hbase.ColumnDescriptor {
	made := hbase.NewColumnDescriptor()
	made.Name, made.MaxVersions = name, maxVersions
	return made
}

func put(column, value hbase.Text) *hbase.Mutation {
	made := hbase.NewMutation()
	made.Column, made.Value = column, value
	return made
}

func texts(rows []*hbase.TRowResult_) (texts []string) {
	for _, row := range rows {
		columns := map[string]string{}
		for column, cell := range row.Columns {
			columns[string(column)] = string(cell.Value)
		}
		// A map is printed in the order of its keys.
		texts = append(texts, fmt.Sprintf("%s %v", row.Row, columns))
	}
	return texts
}

// same fails if a call has failed or its answer is not what is wanted.
func same(what string, err error, got, wanted any) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !reflect.DeepEqual(got, wanted) {
		return fmt.Errorf("%s: got %v, wanted %v", what, got, wanted)
	}
	return nil
}
