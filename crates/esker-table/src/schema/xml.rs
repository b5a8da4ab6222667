//! Schemas as XML: the paper's authors kept them so, and a person can read and change one.
//!
//! ```text
//! <Schema table="7" version="1">
//!   <AccessGroup id="1" name="small">
//!     <ColumnFamily id="2" name="seen" maxVersions="1" ttlMs="60000"/>
//!   </AccessGroup>
//! </Schema>
//! ```
//! `maxVersions="all"` keeps all versions. `index="true"` and `qualifierIndex="true"` index a family. A table that exists has numbers: its own, its version, those of its groups and
//! families, and the next ones of both. It also has `disabled`, `versionsDeleted`, and `<Before>` in a family ([`Past`]).
//! Everything that is not named here is refused: a word that was meant otherwise must not be passed over.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::{Reader, Writer, XmlVersion};

use super::Schema;
use super::family::{AccessGroup, Family, Index, NO_GROUP, Past};
use crate::cell::NO_FAMILY;
use crate::error::{Error, Result};

/// A longer text is no schema: 10,000 families take less.
const TEXT_BYTES_MAX: usize = 16 << 20;

const SCHEMA: &str = "Schema";
const GROUP: &str = "AccessGroup";
const FAMILY: &str = "ColumnFamily";
/// A limit of versions that is none.
const ALL: &str = "all";
const INDEX: &str = "index";
const QUALIFIER_INDEX: &str = "qualifierIndex";
/// An index that lacks what the table had before.
const BUILDING: &str = "building";
/// An earlier rule of the family.
const BEFORE: &str = "Before";

impl Schema {
    /// The schema as text; [`Schema::from_xml`] reads it.
    ///
    /// # Errors
    /// [`Error::Schema`]: it is no schema of a table, because two families have one name, say, or too long a text.
    pub fn to_xml(&self) -> Result<String> {
        self.check()?;
        write(self)
    }

    /// Reads what [`Schema::to_xml`] has written, or somebody with an editor.
    ///
    /// # Errors
    /// [`Error::Schema`]: the text is no schema, and where, or no table can have it: two families have one name, say.
    pub fn from_xml(text: &str) -> Result<Schema> {
        let schema = read(text)?;
        schema.check()?;
        Ok(schema)
    }
}

/// The schema as text, with an end of line at its end.
fn write(schema: &Schema) -> Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    let mut all = BytesStart::new(SCHEMA);
    if schema.table > 0 {
        all.push_attribute(("table", schema.table.to_string().as_str()));
        all.push_attribute(("version", schema.version.to_string().as_str()));
        all.push_attribute(("nextFamily", schema.next_family.to_string().as_str()));
        all.push_attribute(("nextGroup", schema.next_group.to_string().as_str()));
    }
    if schema.is_disabled {
        all.push_attribute(("disabled", "true"));
    }
    writer.write_event(Event::Start(all)).map_err(failed)?;
    for group in schema.groups() {
        let mut start = BytesStart::new(GROUP);
        if group.id != NO_GROUP {
            start.push_attribute(("id", group.id.to_string().as_str()));
        }
        start.push_attribute(("name", group.name.as_str()));
        writer.write_event(Event::Start(start)).map_err(failed)?;
        for family in &group.families {
            write_family(&mut writer, family)?;
        }
        writer.write_event(Event::End(BytesEnd::new(GROUP))).map_err(failed)?;
    }
    writer.write_event(Event::End(BytesEnd::new(SCHEMA))).map_err(failed)?;
    let mut text = String::from_utf8(writer.into_inner()).map_err(failed)?;
    text.push('\n');
    check_len(&text)?;
    Ok(text)
}

fn write_family(writer: &mut Writer<Vec<u8>>, family: &Family) -> Result<()> {
    let mut start = BytesStart::new(FAMILY);
    if family.id != NO_FAMILY {
        start.push_attribute(("id", family.id.to_string().as_str()));
    }
    start.push_attribute(("name", family.name.as_str()));
    start.push_attribute(("maxVersions", versions_text(family.max_versions).as_str()));
    if let Some(ttl_ms) = family.ttl_ms {
        start.push_attribute(("ttlMs", ttl_ms.to_string().as_str()));
    }
    if family.is_counter {
        start.push_attribute(("counter", "true"));
    }
    for (name, index) in [(INDEX, family.value_index), (QUALIFIER_INDEX, family.qualifier_index)] {
        match index {
            Index::None => {}
            Index::Building => start.push_attribute((name, BUILDING)),
            Index::Ready => start.push_attribute((name, "true")),
        }
    }
    if family.has_deleted_versions {
        start.push_attribute(("versionsDeleted", "true"));
    }
    let Past { limits, expired } = &*family.past;
    if limits.is_empty() && expired.is_empty() {
        return writer.write_event(Event::Empty(start)).map_err(failed);
    }
    writer.write_event(Event::Start(start)).map_err(failed)?;
    let mut before = |sequence: u64, what: &str, value: String| {
        let mut empty = BytesStart::new(BEFORE);
        empty.push_attribute(("sequence", sequence.to_string().as_str()));
        empty.push_attribute((what, value.as_str()));
        writer.write_event(Event::Empty(empty)).map_err(failed)
    };
    limits
        .iter()
        .try_for_each(|(sequence, limit)| before(*sequence, "maxVersions", versions_text(*limit)))?;
    expired.iter().try_for_each(|(sequence, below)| before(*sequence, "expiredMs", below.to_string()))?;
    writer.write_event(Event::End(BytesEnd::new(FAMILY))).map_err(failed)
}

fn versions_text(versions: Option<u32>) -> String {
    versions.map_or_else(|| ALL.to_owned(), |versions| versions.to_string())
}

/// Fails if no schema has such a long text.
fn check_len(text: &str) -> Result<()> {
    if text.len() > TEXT_BYTES_MAX {
        let len = text.len();
        return Err(Error::schema(format!(
            "a schema has {TEXT_BYTES_MAX} bytes at most; this one has {len}"
        )));
    }
    Ok(())
}

fn failed(error: impl Display) -> Error {
    Error::schema(error.to_string())
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    InSchema,
    InGroup,
    InFamily,
    InBefore,
    Behind,
}

/// Reads a schema. Whether a table can have it is not checked.
fn read(text: &str) -> Result<Schema> {
    let mut reading = Reading { reader: Reader::from_str(text), begins_at: 0 };
    check_len(text)?;
    let (mut schema, mut place) = (Schema::new(), Place::Before);
    loop {
        reading.begins_at = reading.reader.buffer_position();
        let event = match reading.reader.read_event() {
            Ok(event) => event,
            Err(error) => return Err(reading.wrong(error.to_string())),
        };
        let is_empty = matches!(event, Event::Empty(_));
        match event {
            Event::Start(start) | Event::Empty(start) => {
                let name = start.name().into_inner();
                place = match (place, name) {
                    (Place::Before, SCHEMA) => {
                        reading.schema(&start, &mut schema)?;
                        if is_empty { Place::Behind } else { Place::InSchema }
                    }
                    (Place::InSchema, GROUP) => {
                        schema.groups.push(reading.group(&start)?);
                        if is_empty { Place::InSchema } else { Place::InGroup }
                    }
                    (Place::InGroup, FAMILY) => {
                        let family = reading.family(&start)?;
                        if let Some(group) = schema.groups.last_mut() {
                            group.families.push(family);
                        }
                        if is_empty { Place::InGroup } else { Place::InFamily }
                    }
                    (Place::InFamily, BEFORE) => {
                        let group = schema.groups.last_mut();
                        if let Some(family) = group.and_then(|group| group.families.last_mut()) {
                            reading.before(&start, Arc::make_mut(&mut family.past))?;
                        }
                        if is_empty { Place::InFamily } else { Place::InBefore }
                    }
                    _ => return Err(reading.wrong(format!("<{name}> cannot be here"))),
                };
            }
            // The reader checks that each end is that of the last element that has begun.
            Event::End(_) => {
                place = match place {
                    Place::InBefore => Place::InFamily,
                    Place::InFamily => Place::InGroup,
                    Place::InGroup => Place::InSchema,
                    _ => Place::Behind,
                };
            }
            Event::Text(text) if text.trim_ascii().is_empty() => {}
            Event::Comment(_) | Event::Decl(_) => {}
            Event::Eof if place == Place::Behind => return Ok(schema),
            Event::Eof => return Err(reading.wrong("the text ends before </Schema>".to_owned())),
            Event::DocType(_) => return Err(reading.wrong("a schema has no DOCTYPE".to_owned())),
            Event::Text(text) => {
                let shown: String = text.chars().take(40).collect();
                return Err(reading.wrong(format!("{shown:?} cannot be here")));
            }
            Event::CData(_) | Event::PI(_) | Event::GeneralRef(_) => {
                return Err(reading.wrong("only elements and comments can be here".to_owned()));
            }
        }
    }
}

/// A text that is being read, and where the part begins that is read just now.
struct Reading<'a> {
    reader: Reader<&'a [u8]>,
    begins_at: u64,
}

impl Reading<'_> {
    fn wrong(&self, message: String) -> Error {
        Error::Schema { message, at: Some(self.begins_at) }
    }

    /// Calls `take` with each attribute and its value. It returns whether it knows the attribute.
    fn attributes(
        &self,
        start: &BytesStart<'_>,
        mut take: impl FnMut(&str, &str) -> Result<bool>,
    ) -> Result<()> {
        for attribute in start.attributes() {
            let element = start.name().into_inner();
            let attribute = attribute.map_err(|error| {
                self.wrong(format!("an attribute of <{element}>: {error} in <{}>", &**start))
            })?;
            let name = attribute.key.into_inner();
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| self.wrong(format!("{name}: {error}")))?;
            if !take(name, &value)? {
                return Err(self.wrong(format!("<{element}> has no attribute {name:?}")));
            }
        }
        Ok(())
    }

    fn number<T: FromStr>(&self, name: &str, value: &str) -> Result<T> {
        let expected = "expected a whole number in digits, neither negative nor too large";
        value.parse().map_err(|_| self.wrong(format!("{name}={value:?}: {expected}")))
    }

    fn truth(&self, name: &str, value: &str) -> Result<bool> {
        value.parse().map_err(|_| self.wrong(format!("{name}={value:?}: expected \"true\" or \"false\"")))
    }

    /// Reads a limit of versions.
    fn versions(&self, name: &str, value: &str) -> Result<Option<u32>> {
        if value == ALL { Ok(None) } else { self.number(name, value).map(Some) }
    }

    /// Reads whether a family has an index.
    fn index(&self, name: &str, value: &str) -> Result<Index> {
        if value == BUILDING { Ok(Index::Building) } else { self.truth(name, value).map(Index::wanted) }
    }

    fn schema(&self, start: &BytesStart<'_>, schema: &mut Schema) -> Result<()> {
        self.attributes(start, |name, value| {
            match name {
                "table" => schema.table = self.number(name, value)?,
                "version" => schema.version = self.number(name, value)?,
                "nextFamily" => schema.next_family = self.number(name, value)?,
                "nextGroup" => schema.next_group = self.number(name, value)?,
                "disabled" => schema.is_disabled = self.truth(name, value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })
    }

    fn group(&self, start: &BytesStart<'_>) -> Result<AccessGroup> {
        let (mut named, mut id) = (None, NO_GROUP);
        self.attributes(start, |name, value| {
            match name {
                "id" => id = self.number(name, value)?,
                "name" => named = Some(value.to_owned()),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let name = named.ok_or_else(|| self.wrong(format!("<{GROUP}> needs the attribute \"name\"")))?;
        Ok(AccessGroup { id, name, families: Vec::new() })
    }

    /// Adds one thing to `past`. The order of its parts is that in which [`write_family`] has written them.
    fn before(&self, start: &BytesStart<'_>, past: &mut Past) -> Result<()> {
        let (mut sequence, mut limit, mut expired) = (None, None, None);
        self.attributes(start, |name, value| {
            match name {
                "sequence" => sequence = Some(self.number(name, value)?),
                "maxVersions" => limit = Some(self.versions(name, value)?),
                "expiredMs" => expired = Some(self.number(name, value)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        match (sequence, limit, expired) {
            (Some(sequence), Some(limit), None) => past.limits.push((sequence, limit)),
            (Some(sequence), None, Some(below)) => past.expired.push((sequence, below)),
            _ => {
                let needs = "needs the attribute \"sequence\", and either \"maxVersions\" or \"expiredMs\"";
                return Err(self.wrong(format!("<{BEFORE}> {needs}")));
            }
        }
        Ok(())
    }

    fn family(&self, start: &BytesStart<'_>) -> Result<Family> {
        let (mut named, mut family) = (None, Family::new(""));
        self.attributes(start, |name, value| {
            match name {
                "id" => family.id = self.number(name, value)?,
                "name" => named = Some(value.to_owned()),
                "maxVersions" => family.max_versions = self.versions(name, value)?,
                "ttlMs" => family.ttl_ms = Some(self.number(name, value)?),
                "counter" => family.is_counter = self.truth(name, value)?,
                INDEX => family.value_index = self.index(name, value)?,
                QUALIFIER_INDEX => family.qualifier_index = self.index(name, value)?,
                "versionsDeleted" => family.has_deleted_versions = self.truth(name, value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        family.name = named.ok_or_else(|| self.wrong(format!("<{FAMILY}> needs the attribute \"name\"")))?;
        Ok(family)
    }
}
