//! The table that is measured, as one client sees it: of a store in this process, or of a server.

use esker_table::{AccessGroup, Check, Comparison, Family, Read, RowMutation, Scan, Schema, Table, Tables};
use esker_thrift::{Change, Client, FamilyDescription, RowChanges, ScanRequest};

use super::options::Options;
use super::work::{KEY_LEN, Key};
use crate::stores::Result;

/// Names of PerformanceEvaluation.
const TABLE: &str = "TestTable";
const FAMILY: &str = "info0";
const QUALIFIER: &str = "0";
const INCREMENTED: &str = "IncrementTest";
const CHECKED: &str = "CheckAndPutTest";

/// The bytes of a row with one cell, in addition to its value: row, family and qualifier, as PerformanceEvaluation counts them.
pub(super) const ROW_LEN: usize = KEY_LEN + FAMILY.len() + QUALIFIER.len();

/// A client's calls. None of them returns before the table has done it.
pub(super) trait Connection: Send {
    /// Puts rows, each with one cell.
    fn put(&mut self, rows: &[(Key, Vec<u8>)]) -> Result<()>;

    /// Shows the row's cell to `each`, if there is one.
    fn get(&mut self, row: &Key, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Opens a scan from a row on, below another one. It closes an open one.
    fn open(&mut self, start: &Key, stop: &Key) -> Result<()>;

    /// Shows row and value of the next rows, `rows` at most. No row: it was the end.
    fn next(&mut self, rows: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Closes the scan.
    fn close(&mut self) -> Result<()>;

    /// Adds 1 to the row's counter. Returns the sum.
    fn increment(&mut self, row: &Key) -> Result<i64>;

    /// Puts the row's key as a value, and puts it again if it is there. Returns whether it was.
    fn check_and_put(&mut self, row: &Key) -> Result<bool>;
}

/// Where the table is.
pub(super) enum Target {
    Embedded(Tables),
    Server(Place),
}

/// The host and port of a server.
#[derive(Clone)]
pub(super) struct Place(String, u16);

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "thrift://{}:{}", self.0, self.1)
    }
}

impl Target {
    pub(super) fn open(options: &Options) -> Result<Target> {
        if let Some((host, port)) = &options.server {
            return Ok(Target::Server(Place(host.clone(), *port)));
        }
        let mut of_store = esker::Options::default();
        if let Some(memory) = options.memory {
            of_store = of_store.memory_budget(memory);
        }
        Ok(Target::Embedded(Tables::open(&options.db, of_store)?))
    }

    pub(super) fn close(&self) -> Result<()> {
        match self {
            Target::Embedded(tables) => Ok(tables.db().clone().close()?),
            Target::Server(_) => Ok(()),
        }
    }

    /// What a run is called.
    pub(super) fn name(&self) -> String {
        match self {
            Target::Embedded(_) => "embedded".to_owned(),
            Target::Server(place) => place.to_string(),
        }
    }

    /// Makes the table if it is missing, and refuses one that is no table of PerformanceEvaluation.
    pub(super) fn need_table(&self) -> Result<()> {
        let mut families: Vec<String> = match self {
            Target::Embedded(tables) => match tables.table(TABLE) {
                Ok(table) => {
                    let schema = table.schema();
                    let families = schema.groups().iter().flat_map(AccessGroup::families);
                    families.map(|family| family.name().to_owned()).collect()
                }
                Err(esker_table::Error::NoTable(_)) => {
                    let family = Family::new(FAMILY).max_versions(1);
                    tables.create(TABLE, Schema::new().group("default", [family]))?;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            },
            Target::Server(place) => {
                let mut client = connect(place)?;
                let names = client.table_names().map_err(|error| of_server(place, &error))?;
                if !names.iter().any(|name| name == TABLE.as_bytes()) {
                    let family = FamilyDescription { name: FAMILY.into(), max_versions: 1, ttl_s: i32::MAX };
                    let made = client.create_table(TABLE.as_bytes(), &[family]);
                    return made.map_err(|error| of_server(place, &error));
                }
                let families = client.families(TABLE.as_bytes()).map_err(|error| of_server(place, &error))?;
                families.iter().map(|family| String::from_utf8_lossy(&family.name).into_owned()).collect()
            }
        };
        families.sort();
        match families.as_slice() {
            [family] if family == FAMILY => Ok(()),
            _ => Err(format!(
                "the table {TABLE} has the column families {}, and not {FAMILY}, which the benchmark needs: rename or drop it, \
                 or use another store",
                families.join(", ")
            )
            .into()),
        }
    }

    pub(super) fn connect(&self, options: &Options) -> Result<Box<dyn Connection>> {
        Ok(match self {
            Target::Embedded(tables) => {
                let table = tables.table(TABLE)?;
                Box::new(Embedded { table, read: Read::column(FAMILY, QUALIFIER), scan: None })
            }
            Target::Server(place) => {
                let column = format!("{FAMILY}:{QUALIFIER}").into_bytes();
                let change = Change { column: column.clone(), value: Some(Vec::new()) };
                let row = RowChanges { row: Vec::new(), changes: vec![change] };
                Box::new(Remote {
                    client: connect(place)?,
                    place: place.clone(),
                    column,
                    rows: vec![row; options.batch],
                    scanner: None,
                })
            }
        })
    }
}

fn connect(place: &Place) -> Result<Client> {
    Client::connect(&place.0, place.1).map_err(|error| format!("cannot reach {place}: {error}").into())
}

fn of_server(place: &Place, error: &esker_thrift::CallError) -> Box<dyn std::error::Error + Send + Sync> {
    format!("{place}: {error}").into()
}

/// A table of this process.
struct Embedded {
    table: Table,
    read: Read,
    scan: Option<Scan>,
}

impl Connection for Embedded {
    fn put(&mut self, rows: &[(Key, Vec<u8>)]) -> Result<()> {
        let put =
            |(row, value): &(Key, Vec<u8>)| RowMutation::new(row).put(FAMILY, QUALIFIER, value.as_slice());
        let done = match rows {
            [row] => self.table.mutate(&put(row)),
            rows => self.table.mutate_rows(&rows.iter().map(put).collect::<Vec<_>>()),
        };
        done.map_err(Into::into)
    }

    fn get(&mut self, row: &Key, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let cells = self.table.get(row, &self.read)?;
        cells.iter().for_each(|cell| each(row, &cell.value));
        Ok(())
    }

    fn open(&mut self, start: &Key, stop: &Key) -> Result<()> {
        self.scan = Some(self.table.scan(start, stop, &self.read)?);
        Ok(())
    }

    fn next(&mut self, rows: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let Some(scan) = &mut self.scan else { return Ok(()) };
        for _ in 0..rows {
            if !scan.advance()? {
                break;
            }
            if let Some(value) = scan.value() {
                each(scan.row(), &value.bytes()?);
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.scan = None;
        Ok(())
    }

    fn increment(&mut self, row: &Key) -> Result<i64> {
        self.table.increment(row, FAMILY, INCREMENTED, 1).map_err(Into::into)
    }

    fn check_and_put(&mut self, row: &Key) -> Result<bool> {
        let put = RowMutation::new(row).put(FAMILY, CHECKED, row);
        self.table.mutate(&put)?;
        let check = Check::value(FAMILY, CHECKED, Comparison::Equal, row);
        self.table.check_and_mutate(&[check], &put).map_err(Into::into)
    }
}

/// A table of a server.
struct Remote {
    client: Client,
    place: Place,
    /// Of the cells that are put and read.
    column: Vec<u8>,
    /// Memory for puts: their columns stay.
    rows: Vec<RowChanges>,
    scanner: Option<i32>,
}

impl Connection for Remote {
    fn put(&mut self, rows: &[(Key, Vec<u8>)]) -> Result<()> {
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
        done.map_err(|error| of_server(&self.place, &error))
    }

    fn get(&mut self, row: &Key, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let done =
            self.client.read_row(TABLE.as_bytes(), row, &[&self.column], |cell| each(cell.row, cell.value));
        done.map_err(|error| of_server(&self.place, &error))
    }

    fn open(&mut self, start: &Key, stop: &Key) -> Result<()> {
        self.close()?;
        let scan = ScanRequest {
            start: start.to_vec(),
            stop: stop.to_vec(),
            columns: vec![self.column.clone()],
            ..ScanRequest::default()
        };
        let opened = self.client.open_scanner(TABLE.as_bytes(), &scan);
        self.scanner = Some(opened.map_err(|error| of_server(&self.place, &error))?);
        Ok(())
    }

    fn next(&mut self, rows: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let Some(scanner) = self.scanner else { return Ok(()) };
        let rows = i32::try_from(rows).unwrap_or(i32::MAX);
        let done = self.client.read_next_rows(scanner, rows, |cell| each(cell.row, cell.value));
        done.map(drop).map_err(|error| of_server(&self.place, &error))
    }

    fn close(&mut self) -> Result<()> {
        let Some(scanner) = self.scanner.take() else { return Ok(()) };
        self.client.close_scanner(scanner).map_err(|error| of_server(&self.place, &error))
    }

    fn increment(&mut self, row: &Key) -> Result<i64> {
        let column = format!("{FAMILY}:{INCREMENTED}");
        let done = self.client.increment(TABLE.as_bytes(), row, column.as_bytes(), 1);
        done.map_err(|error| of_server(&self.place, &error))
    }

    fn check_and_put(&mut self, row: &Key) -> Result<bool> {
        let column = format!("{FAMILY}:{CHECKED}").into_bytes();
        let mut changes = RowChanges {
            row: row.to_vec(),
            changes: vec![Change { column: column.clone(), value: Some(row.to_vec()) }],
        };
        let put = self.client.mutate_row(TABLE.as_bytes(), &changes);
        put.map_err(|error| of_server(&self.place, &error))?;
        let Some(put) = changes.changes.pop() else { return Ok(false) };
        let done = self.client.check_and_put(TABLE.as_bytes(), row, &column, Some(row), &put);
        done.map_err(|error| of_server(&self.place, &error))
    }
}
