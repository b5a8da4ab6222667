//! The table that is measured, as one client sees it: of a store in this process, or of a server.

use esker_table::{AccessGroup, Check, Comparison, Family, Read, RowMutation, Scan, Schema, Table, Tables};
use esker_thrift::{Change, Client, FamilyDescription, RowChanges, ScanRequest};

use super::work::{KEY_LEN, Key};
use crate::args::{Global, Pe};
use crate::client::Url;
use crate::exit::{Failure, Outcome};
use crate::store;

/// Names of PerformanceEvaluation.
const TABLE: &str = "TestTable";
const FAMILY: &str = "info0";
const QUALIFIER: &str = "0";
const INCREMENTED: &str = "IncrementTest";
const CHECKED: &str = "CheckAndPutTest";

/// The bytes of a row with one cell, beside its value: row, family and qualifier, as PerformanceEvaluation counts them.
pub(super) const ROW_LEN: usize = KEY_LEN + FAMILY.len() + QUALIFIER.len();

/// A client's calls. None of them returns before the table has done it.
pub(super) trait Connection: Send {
    /// Puts rows, each with one cell.
    fn put(&mut self, rows: &[(Key, Vec<u8>)]) -> Outcome;

    /// Shows the row's cell to `each`, if there is one.
    fn get(&mut self, row: &Key, each: &mut dyn FnMut(&[u8], &[u8])) -> Outcome;

    /// Opens a scan from a row on, below another one. It closes an open one.
    fn open(&mut self, start: &Key, stop: &Key) -> Outcome;

    /// Shows row and value of the next rows, `rows` at most. No row: it was the end.
    fn next(&mut self, rows: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Outcome;

    /// Closes the scan.
    fn close(&mut self) -> Outcome;

    /// Adds 1 to the row's counter. Returns the sum.
    fn increment(&mut self, row: &Key) -> Outcome<i64>;

    /// Puts the row's key as a value, and puts it again if it is there. Returns whether it was.
    fn check_and_put(&mut self, row: &Key) -> Outcome<bool>;
}

/// Where the table is.
pub(super) enum Target {
    Embedded(Tables),
    Server(Url),
}

impl Target {
    pub(super) fn open(global: &Global) -> Outcome<Target> {
        match &global.url {
            None => Ok(Target::Embedded(store::tables(global, 0)?)),
            Some(url) if url.thrift().is_some() => Ok(Target::Server(url.clone())),
            Some(_) => Err(Failure::usage(
                "`esker bench pe` measures the tables of a server by HBase's Thrift interface: --url thrift://HOST:PORT",
            )),
        }
    }

    pub(super) fn close(&self) -> Outcome {
        match self {
            Target::Embedded(tables) => Ok(tables.db().clone().close()?),
            Target::Server(_) => Ok(()),
        }
    }

    /// What a run is called.
    pub(super) fn name(&self) -> String {
        match self {
            Target::Embedded(_) => "embedded".to_owned(),
            Target::Server(url) => format!("thrift://{url}"),
        }
    }

    /// Makes the table if it is missing, and refuses one that is no table of PerformanceEvaluation.
    pub(super) fn need_table(&self) -> Outcome {
        let mut families: Vec<String> = match self {
            Target::Embedded(tables) => match tables.table(TABLE) {
                Ok(table) => {
                    let schema = table.schema();
                    let families = schema.groups().iter().flat_map(AccessGroup::families);
                    families.map(|family| family.name().to_owned()).collect()
                }
                Err(esker_table::Error::NoTable(_)) => {
                    let family = Family::new(FAMILY).max_versions(1);
                    tables.create(TABLE, Schema::new().group("default", [family])).map_err(of_table)?;
                    return Ok(());
                }
                Err(error) => return Err(of_table(error)),
            },
            Target::Server(url) => {
                let mut client = connect(url)?;
                let names = client.table_names().map_err(|error| of_server(url, &error))?;
                if !names.iter().any(|name| name == TABLE.as_bytes()) {
                    let family = FamilyDescription { name: FAMILY.into(), max_versions: 1, ttl_s: i32::MAX };
                    let made = client.create_table(TABLE.as_bytes(), &[family]);
                    return made.map_err(|error| of_server(url, &error));
                }
                let families = client.families(TABLE.as_bytes()).map_err(|error| of_server(url, &error))?;
                families.iter().map(|family| String::from_utf8_lossy(&family.name).into_owned()).collect()
            }
        };
        families.sort();
        match families.as_slice() {
            [family] if family == FAMILY => Ok(()),
            _ => Err(Failure::usage(format!(
                "the table {TABLE} has the column families {}, and not {FAMILY}, which the benchmark needs: rename or drop it, \
                 or use another store",
                families.join(", ")
            ))),
        }
    }

    pub(super) fn connect(&self, args: &Pe) -> Outcome<Box<dyn Connection>> {
        Ok(match self {
            Target::Embedded(tables) => {
                let table = tables.table(TABLE).map_err(of_table)?;
                Box::new(Embedded { table, read: Read::column(FAMILY, QUALIFIER), scan: None })
            }
            Target::Server(url) => {
                let column = format!("{FAMILY}:{QUALIFIER}").into_bytes();
                let change = Change { column: column.clone(), value: Some(Vec::new()) };
                let row = RowChanges { row: Vec::new(), changes: vec![change] };
                Box::new(Remote {
                    client: connect(url)?,
                    url: url.clone(),
                    column,
                    rows: vec![row; args.batch],
                    scanner: None,
                })
            }
        })
    }
}

fn connect(url: &Url) -> Outcome<Client> {
    let Some((host, port)) = url.thrift() else { return Err(Failure::usage("the URL is no thrift:// URL")) };
    Client::connect(host, port)
        .map_err(|error| Failure::store(format!("cannot reach thrift://{url}: {error}")))
}

fn of_server(url: &Url, error: &esker_thrift::CallError) -> Failure {
    Failure::store(format!("thrift://{url}: {error}"))
}

fn of_table(error: esker_table::Error) -> Failure {
    match error {
        esker_table::Error::Store(error) => error.into(),
        error => Failure::store(error.to_string()),
    }
}

/// A table of this process.
struct Embedded {
    table: Table,
    read: Read,
    scan: Option<Scan>,
}

impl Connection for Embedded {
    fn put(&mut self, rows: &[(Key, Vec<u8>)]) -> Outcome {
        let put =
            |(row, value): &(Key, Vec<u8>)| RowMutation::new(row).put(FAMILY, QUALIFIER, value.as_slice());
        let done = match rows {
            [row] => self.table.mutate(&put(row)),
            rows => self.table.mutate_rows(&rows.iter().map(put).collect::<Vec<_>>()),
        };
        done.map_err(of_table)
    }

    fn get(&mut self, row: &Key, each: &mut dyn FnMut(&[u8], &[u8])) -> Outcome {
        let cells = self.table.get(row, &self.read).map_err(of_table)?;
        cells.iter().for_each(|cell| each(row, &cell.value));
        Ok(())
    }

    fn open(&mut self, start: &Key, stop: &Key) -> Outcome {
        self.scan = Some(self.table.scan(start, stop, &self.read).map_err(of_table)?);
        Ok(())
    }

    fn next(&mut self, rows: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Outcome {
        let Some(scan) = &mut self.scan else { return Ok(()) };
        for _ in 0..rows {
            if !scan.advance().map_err(of_table)? {
                break;
            }
            if let Some(value) = scan.value() {
                each(scan.row(), &value.bytes().map_err(of_table)?);
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Outcome {
        self.scan = None;
        Ok(())
    }

    fn increment(&mut self, row: &Key) -> Outcome<i64> {
        self.table.increment(row, FAMILY, INCREMENTED, 1).map_err(of_table)
    }

    fn check_and_put(&mut self, row: &Key) -> Outcome<bool> {
        let put = RowMutation::new(row).put(FAMILY, CHECKED, row);
        self.table.mutate(&put).map_err(of_table)?;
        let check = Check::value(FAMILY, CHECKED, Comparison::Equal, row);
        self.table.check_and_mutate(&[check], &put).map_err(of_table)
    }
}

/// A table of a server.
struct Remote {
    client: Client,
    url: Url,
    /// Of the cells that are put and read.
    column: Vec<u8>,
    /// Memory for puts: their columns stay.
    rows: Vec<RowChanges>,
    scanner: Option<i32>,
}

impl Connection for Remote {
    fn put(&mut self, rows: &[(Key, Vec<u8>)]) -> Outcome {
        for (changes, (row, value)) in self.rows.iter_mut().zip(rows) {
            row.as_slice().clone_into(&mut changes.row);
            if let Some(to) = changes.changes.first_mut().and_then(|change| change.value.as_mut()) {
                to.clone_from(value);
            }
        }
        let done = match self.rows.get(..rows.len()).unwrap_or_default() {
            [row] => self.client.mutate_row(TABLE.as_bytes(), row),
            rows => self.client.mutate_rows(TABLE.as_bytes(), rows, None),
        };
        done.map_err(|error| of_server(&self.url, &error))
    }

    fn get(&mut self, row: &Key, each: &mut dyn FnMut(&[u8], &[u8])) -> Outcome {
        let done =
            self.client.read_row(TABLE.as_bytes(), row, &[&self.column], |cell| each(cell.row, cell.value));
        done.map_err(|error| of_server(&self.url, &error))
    }

    fn open(&mut self, start: &Key, stop: &Key) -> Outcome {
        self.close()?;
        let scan = ScanRequest {
            start: start.to_vec(),
            stop: stop.to_vec(),
            columns: vec![self.column.clone()],
            ..ScanRequest::default()
        };
        let opened = self.client.open_scanner(TABLE.as_bytes(), &scan);
        self.scanner = Some(opened.map_err(|error| of_server(&self.url, &error))?);
        Ok(())
    }

    fn next(&mut self, rows: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Outcome {
        let Some(scanner) = self.scanner else { return Ok(()) };
        let rows = i32::try_from(rows).unwrap_or(i32::MAX);
        let done = self.client.read_next_rows(scanner, rows, |cell| each(cell.row, cell.value));
        done.map(drop).map_err(|error| of_server(&self.url, &error))
    }

    fn close(&mut self) -> Outcome {
        let Some(scanner) = self.scanner.take() else { return Ok(()) };
        self.client.close_scanner(scanner).map_err(|error| of_server(&self.url, &error))
    }

    fn increment(&mut self, row: &Key) -> Outcome<i64> {
        let column = format!("{FAMILY}:{INCREMENTED}");
        let done = self.client.increment(TABLE.as_bytes(), row, column.as_bytes(), 1);
        done.map_err(|error| of_server(&self.url, &error))
    }

    fn check_and_put(&mut self, row: &Key) -> Outcome<bool> {
        let column = format!("{FAMILY}:{CHECKED}").into_bytes();
        let mut changes = RowChanges {
            row: row.to_vec(),
            changes: vec![Change { column: column.clone(), value: Some(row.to_vec()) }],
        };
        let put = self.client.mutate_row(TABLE.as_bytes(), &changes);
        put.map_err(|error| of_server(&self.url, &error))?;
        let Some(put) = changes.changes.pop() else { return Ok(false) };
        let done = self.client.check_and_put(TABLE.as_bytes(), row, &column, Some(row), &put);
        done.map_err(|error| of_server(&self.url, &error))
    }
}
