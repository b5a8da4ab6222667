//! The catalog of tables: its keys, and what a change of them means.
//!
//! ```text
//! tree "tables"     "table " name -> schema (XML)      "namespace " name -> nothing
//!                   "next table" -> number             "sequence bound" -> number
//!                   "part 7.2.1" -> row
//! ```
//! An entry of the journal changes some of these keys, maybe together with cells. [`Change::enter`] puts a change into an entry,
//! and [`Change::read`] reads it from one, as from the catalog itself. So what the entry means for this process
//! (`Inner::apply` in `tables.rs`) is the same wherever it was proposed.

use esker::{Batch, ScanRange, Tree, keys};

use crate::cell::check_row;
use crate::error::{Error, Result};
use crate::parts::Division;
use crate::schema::Schema;

/// The catalog's tree, and its tag: which version of the layout it has.
pub(crate) const CATALOG: &str = "tables";
pub(crate) const CATALOG_TAG: &str = "esker tables 1";

const TABLE_KEYS: &str = "table ";
const NAMESPACE_KEYS: &str = "namespace ";
const PART_KEYS: &str = "part ";
const NEXT_TABLE_KEY: &str = "next table";
const BOUND_KEY: &str = "sequence bound";

/// No store gets there: a higher bound of sequence numbers is damage.
const BOUND_MAX: u64 = u64::MAX / 2;

/// A change of one key of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The table with this schema, by its number, has this name. It may be new, or have had another name or schema.
    Table { name: String, schema: Schema },
    /// No table has this name, unless another change of the entry gives it to one.
    NoTable { name: String },
    /// There is this namespace.
    Namespace { name: String },
    /// There is no such namespace.
    NoNamespace { name: String },
    /// A group of a table is split at a row.
    Part { table: u64, group: u16, division: Division },
    /// A part is not one any more: its table or group goes.
    NoPart { table: u64, group: u16, number: u32 },
    /// The number of the next new table.
    NextTable(u64),
    /// No sequence number in the store has reached this one.
    Bound(u64),
}

impl Change {
    /// What it means that `key` gets this value, or is deleted. `None`: the key is not one of the catalog's.
    ///
    /// # Errors
    /// `Damaged` when the catalog cannot have this key or value.
    pub(crate) fn read(key: &[u8], value: Option<&[u8]>) -> Result<Option<Change>> {
        let damaged =
            |what: String| Error::Damaged(format!("the catalog's entry \"{}\": {what}", key.escape_ascii()));
        let Ok(text) = std::str::from_utf8(key) else {
            return match key.starts_with(TABLE_KEYS.as_bytes()) {
                true => Err(damaged("the name is not UTF-8".to_owned())),
                false => Ok(None),
            };
        };
        let number = |value: &[u8]| keys::decode_u64(value).map_err(|error| damaged(error.to_string()));
        if let Some(name) = text.strip_prefix(TABLE_KEYS) {
            let name = name.to_owned();
            let Some(value) = value else { return Ok(Some(Change::NoTable { name })) };
            let xml = std::str::from_utf8(value).map_err(|error| damaged(error.to_string()))?;
            let schema = Schema::from_xml(xml).map_err(|error| damaged(error.to_string()))?;
            if !schema.is_numbered() {
                return Err(damaged("its schema lacks numbers".to_owned()));
            }
            return Ok(Some(Change::Table { name, schema }));
        }
        if let Some(name) = text.strip_prefix(NAMESPACE_KEYS) {
            let name = name.to_owned();
            return Ok(Some(match value {
                Some(_) => Change::Namespace { name },
                None => Change::NoNamespace { name },
            }));
        }
        if let Some(part) = text.strip_prefix(PART_KEYS) {
            let of_no_part = || damaged("it is not that of a part of a table".to_owned());
            let (table, group, number) = part_numbers(part).ok_or_else(of_no_part)?;
            let Some(row) = value else { return Ok(Some(Change::NoPart { table, group, number })) };
            check_row(row).map_err(|_| of_no_part())?;
            let division = Division { number, row: row.to_vec() };
            return Ok(Some(Change::Part { table, group, division }));
        }
        match (text, value) {
            (NEXT_TABLE_KEY, Some(value)) => Ok(Some(Change::NextTable(number(value)?))),
            (BOUND_KEY, Some(value)) => match number(value)? {
                bound if bound <= BOUND_MAX => Ok(Some(Change::Bound(bound))),
                bound => Err(damaged(format!("the bound of the sequence numbers is too high: {bound}"))),
            },
            _ => Ok(None),
        }
    }

    /// Puts the change into an entry.
    ///
    /// # Errors
    /// [`Error::Schema`] when a schema is too long a text.
    pub(crate) fn enter(&self, catalog: &Tree, batch: &mut Batch) -> Result<()> {
        match self {
            Change::Table { name, schema } => {
                batch.put(catalog, format!("{TABLE_KEYS}{name}"), schema.to_xml()?)?;
            }
            Change::NoTable { name } => batch.delete(catalog, format!("{TABLE_KEYS}{name}"))?,
            Change::Namespace { name } => batch.put(catalog, namespace_key(name), "")?,
            Change::NoNamespace { name } => batch.delete(catalog, namespace_key(name))?,
            Change::Part { table, group, division } => {
                let key = format!("{}{}", part_keys(*table, *group), division.number);
                batch.put(catalog, key, &division.row)?;
            }
            Change::NoPart { table, group, number } => {
                batch.delete(catalog, format!("{}{number}", part_keys(*table, *group)))?;
            }
            Change::NextTable(number) => batch.put(catalog, NEXT_TABLE_KEY, keys::u64(*number))?,
            Change::Bound(bound) => batch.put(catalog, BOUND_KEY, keys::u64(*bound))?,
        }
        Ok(())
    }
}

/// The numbers in the key of a part: of the table, of the group, and of the part in its group.
fn part_numbers(part: &str) -> Option<(u64, u16, u32)> {
    let (table, part) = part.split_once('.')?;
    let (group, number) = part.split_once('.')?;
    Some((table.parse().ok()?, group.parse().ok()?, number.parse().ok()?))
}

/// How the catalog's keys of the parts of a group begin.
fn part_keys(table: u64, group: u16) -> String {
    format!("{PART_KEYS}{table}.{group}.")
}

fn namespace_key(name: &str) -> String {
    format!("{NAMESPACE_KEYS}{name}")
}

/// All tables that the catalog has: their names and schemas.
pub(crate) fn tables(catalog: &Tree) -> Result<Vec<(String, Schema)>> {
    let mut tables = Vec::new();
    for pair in catalog.scan(ScanRange::prefix(TABLE_KEYS))? {
        let (key, text) = pair?;
        if let Some(Change::Table { name, schema }) = Change::read(&key, Some(&text))? {
            tables.push((name, schema));
        }
    }
    Ok(tables)
}

/// The namespaces that the catalog has.
pub(crate) fn namespaces(catalog: &Tree) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for pair in catalog.scan(ScanRange::prefix(NAMESPACE_KEYS))? {
        names.push(String::from_utf8_lossy(&pair?.0[NAMESPACE_KEYS.len()..]).into_owned());
    }
    Ok(names)
}

/// Whether the catalog has the namespace.
pub(crate) fn has_namespace(catalog: &Tree, name: &str) -> Result<bool> {
    Ok(catalog.contains(namespace_key(name))?)
}

/// The parts of a group that the catalog has, without the first one.
pub(crate) fn divisions(catalog: &Tree, table: u64, group: u16) -> Result<Vec<Division>> {
    let mut divisions = Vec::new();
    for pair in catalog.scan(ScanRange::prefix(part_keys(table, group)))? {
        let (key, row) = pair?;
        if let Some(Change::Part { division, .. }) = Change::read(&key, Some(&row))? {
            divisions.push(division);
        }
    }
    Ok(divisions)
}

/// The changes by which a table has no parts any more, or one of its groups.
pub(crate) fn without_parts(catalog: &Tree, table: u64, group: Option<u16>) -> Result<Vec<Change>> {
    let prefix = group.map_or_else(|| format!("{PART_KEYS}{table}."), |group| part_keys(table, group));
    let mut changes = Vec::new();
    for pair in catalog.scan(ScanRange::prefix(prefix).keys_only())? {
        // A key that is damaged is of no group that is opened.
        changes.extend(Change::read(&pair?.0, None).ok().flatten());
    }
    Ok(changes)
}

/// The number of the next new table.
pub(crate) fn next_table(catalog: &Tree) -> Result<u64> {
    Ok(match catalog.get_vec(NEXT_TABLE_KEY)? {
        None => 1,
        Some(bytes) => keys::decode_u64(&bytes)?,
    })
}

/// The bound of the sequence numbers. `None`: the store has none.
pub(crate) fn bound(catalog: &Tree) -> Result<Option<u64>> {
    let Some(bytes) = catalog.get_vec(BOUND_KEY)? else { return Ok(None) };
    match Change::read(BOUND_KEY.as_bytes(), Some(&bytes))? {
        Some(Change::Bound(bound)) => Ok(Some(bound)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use esker::{Db, Options};

    use super::*;
    use crate::schema::Family;

    #[test]
    fn a_change_is_read_as_it_was_entered() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let catalog = db.tree(CATALOG).unwrap();
        let schema = Schema::new().group("a", [Family::new("f").index_values(true)]).numbered(7).unwrap();
        let name = || "n:t".to_owned();
        let puts = [
            Change::Table { name: name(), schema },
            Change::Namespace { name: "n".to_owned() },
            Change::Part { table: 7, group: 2, division: Division { number: 12, row: b"\0r".to_vec() } },
            Change::NextTable(8),
            Change::Bound(1 << 20),
        ];
        let deletes = [
            Change::NoTable { name: name() },
            Change::NoNamespace { name: "n".to_owned() },
            Change::NoPart { table: 7, group: 2, number: 12 },
        ];
        let mut read = Vec::new();
        for change in &puts {
            let mut batch = Batch::new();
            change.enter(&catalog, &mut batch).unwrap();
            db.write(&batch).unwrap();
            let (key, value) = catalog.scan(..).unwrap().next().unwrap().unwrap();
            assert_eq!(Change::read(&key, Some(&value)).unwrap().as_ref(), Some(change));
            read.extend(Change::read(&key, None).unwrap());
            catalog.delete(key).unwrap();
        }
        assert_eq!(read, deletes);
        for change in [&puts[..], &deletes].concat() {
            let mut batch = Batch::new();
            change.enter(&catalog, &mut batch).unwrap();
            db.write(&batch).unwrap();
        }
        let left = catalog.scan(..).unwrap().map(|pair| pair.unwrap().0).collect::<Vec<_>>();
        assert_eq!(left, [NEXT_TABLE_KEY.as_bytes(), BOUND_KEY.as_bytes()]);
    }

    #[test]
    fn what_no_catalog_has_is_damage_or_not_the_catalogs() {
        let unnumbered = Schema::new().group("a", [Family::new("f")]).to_xml().unwrap();
        for (key, value) in [
            (&b"table \xff"[..], &b""[..]),
            (b"table t", b"<Schema>"),
            (b"table t", unnumbered.as_bytes()),
            (b"part 1.1.x", b"r"),
            (b"part 1.1", b"r"),
            (b"part 1.1.1", b""),
            (b"next table", b"1"),
            (b"sequence bound", b"seven"),
            (b"sequence bound", &keys::u64(u64::MAX - 1)),
        ] {
            assert!(
                matches!(Change::read(key, Some(value)), Err(Error::Damaged(_))),
                "{}",
                key.escape_ascii()
            );
        }
        assert_eq!(Change::read(b"chair", Some(b"oak")).unwrap(), None);
        assert_eq!(Change::read(b"\xff", None).unwrap(), None);
    }
}
