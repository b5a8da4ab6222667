//! Schemas, as statements say them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use esker_table::{AccessGroup, Family, Schema};

use crate::error::{Error, Result};
use crate::names::families;
use crate::statement::{Change, FamilyItem, Placed, SchemaItem};

/// The access group of families that are in none.
const GROUP: &str = "default";

/// The schema of a new table. What names may be is for the tables to say: HBase's families may have others than Esker's.
pub(super) fn new(items: &[SchemaItem]) -> Result<Schema> {
    let (mut schema, mut named) = (Schema::new(), BTreeSet::new());
    for item in items {
        if let SchemaItem::Group { name, .. } = item
            && !named.insert(name.as_str())
        {
            let message = format!("the access group {:?} is defined twice", **name);
            return Err(Error::Impossible(message).at(name.at()));
        }
    }
    for (group, families) in groups(items)? {
        schema = schema.group(group, families);
    }
    with_indexes(schema, items)
}

/// The schema with the indexes that `items` names.
fn with_indexes(schema: Schema, items: &[SchemaItem]) -> Result<Schema> {
    items.iter().try_fold(schema, |schema, item| match item {
        SchemaItem::Index { of_qualifiers, family } => with_index(schema, *of_qualifiers, family, true),
        _ => Ok(schema),
    })
}

/// The schema with an index of a family, or without it.
fn with_index(
    schema: Schema,
    of_qualifiers: bool,
    family: &Placed<String>,
    is_indexed: bool,
) -> Result<Schema> {
    let found = need(&schema, family)?.clone();
    Ok(schema.with_rules_of(&match of_qualifiers {
        true => found.index_qualifiers(is_indexed),
        false => found.index_values(is_indexed),
    }))
}

/// The schema after `changes`, one after the other.
pub(super) fn changed(mut schema: Schema, changes: &[Change]) -> Result<Schema> {
    let mut present: BTreeSet<String> = names(&schema).map(str::to_owned).collect();
    let (mut dropped, mut last_dropped) = (BTreeSet::new(), None);
    for change in changes {
        schema = match change {
            Change::Add(items) => {
                check_names(items)?;
                if let Some(family) = named(items).find(|name| present.contains(name.as_str())) {
                    let message = format!("the table has a column family {:?} already", **family);
                    return Err(Error::Impossible(message).at(family.at()));
                }
                if let Some(family) = named(items).find(|name| dropped.contains(name.as_str())) {
                    // A table knows its families by their names: it would be the same one, with its cells.
                    let message = format!(
                        "the column family {:?} is dropped and added: it takes two statements",
                        **family
                    );
                    return Err(Error::Impossible(message).at(family.at()));
                }
                let schema = groups(items)?.into_iter().fold(schema, |schema, (group, families)| {
                    families.into_iter().fold(schema, |schema, family| schema.with_family(&group, family))
                });
                present.extend(named(items).map(ToString::to_string));
                with_indexes(schema, items)?
            }
            Change::Modify(items) => with_indexes(items.iter().try_fold(schema, modified)?, items)?,
            Change::DropIndex { of_qualifiers, family } => with_index(schema, *of_qualifiers, family, false)?,
            Change::Drop(families) => {
                for name in families {
                    need(&schema, name)?;
                    schema = schema.without_family(name);
                    present.remove(name.as_str());
                    dropped.insert(name.as_str());
                    last_dropped = name.at();
                }
                schema
            }
            Change::RenameFamily { from, to } => {
                need(&schema, from)?;
                check_family(to)?;
                if from != to && present.contains(to.as_str()) {
                    let message = format!("the table has a column family {:?} already", **to);
                    return Err(Error::Impossible(message).at(to.at()));
                }
                present.remove(from.as_str());
                present.insert(to.to_string());
                schema.with_family_renamed(from, to)
            }
        };
    }
    if names(&schema).next().is_none() {
        let message = "a table has one column family at least, and this drops the last one".to_owned();
        return Err(Error::Impossible(message).at(last_dropped));
    }
    Ok(schema)
}

/// Fails at the first name that no access group or family can have.
pub(super) fn check_names(items: &[SchemaItem]) -> Result<()> {
    for item in items {
        let families = match item {
            SchemaItem::Family(family) => std::slice::from_ref(family),
            SchemaItem::Group { name, families } => {
                let alone = Schema::new().group(name.as_str(), [Family::new("f")]);
                alone.to_xml().map_err(|error| Error::from(error).at(name.at()))?;
                families
            }
            SchemaItem::Index { .. } => &[],
        };
        families.iter().try_for_each(|family| check_family(&family.name))?;
    }
    Ok(())
}

/// Fails at a name that no family can have.
fn check_family(name: &Placed<String>) -> Result<()> {
    let alone = Schema::new().group(GROUP, [Family::new(name.as_str())]);
    alone.to_xml().map(drop).map_err(|error| Error::from(error).at(name.at()))
}

/// The names of the families of `schema`.
fn names(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.groups().iter().flat_map(AccessGroup::families).map(Family::name)
}

/// The names of the families in `items`.
fn named(items: &[SchemaItem]) -> impl Iterator<Item = &Placed<String>> {
    items
        .iter()
        .flat_map(|item| match item {
            SchemaItem::Family(family) => std::slice::from_ref(family).iter(),
            SchemaItem::Group { families, .. } => families.iter(),
            SchemaItem::Index { .. } => [].iter(),
        })
        .map(|family| &family.name)
}

/// The schema with what `item` says of families that it has. They stay in their access groups.
fn modified(schema: Schema, item: &SchemaItem) -> Result<Schema> {
    match item {
        SchemaItem::Family(family) => with_family_modified(schema, family),
        SchemaItem::Group { name, families } => {
            for family in families {
                need(&schema, &family.name)?;
                let mut groups = schema.groups().iter();
                let is_of =
                    |group: &&AccessGroup| group.families().iter().any(|other| other.name() == *family.name);
                if let Some(group) = groups.find(is_of).filter(|group| group.name() != **name) {
                    let message = format!(
                        "the column family {:?} is in the access group {:?}, and cannot move to another one",
                        *family.name,
                        group.name()
                    );
                    return Err(Error::Impossible(message).at(family.name.at()));
                }
            }
            if !schema.groups().iter().any(|group| group.name() == **name) {
                let message = format!("the table has no access group {:?}", **name);
                return Err(Error::Impossible(message).at(name.at()));
            }
            families.iter().try_fold(schema, with_family_modified)
        }
        SchemaItem::Index { .. } => Ok(schema),
    }
}

/// The schema with what `item` says of a family that it has.
fn with_family_modified(schema: Schema, item: &FamilyItem) -> Result<Schema> {
    let mut family = need(&schema, &item.name)?.clone();
    if let Some(is_counter) = item.is_counter.filter(|is_counter| *is_counter != family.is_counter()) {
        let what = match is_counter {
            true => "become one of counters: its cells may be none",
            false => "stop being one of counters: its cells are numbers",
        };
        let message = format!("the column family {:?} cannot {what}", *item.name);
        return Err(Error::Impossible(message).at(item.name.at()));
    }
    let asked = self::family(item)?;
    if item.max_versions.is_some() {
        family = family.max_versions(asked.kept_versions());
    }
    if item.ttl_ms.is_some() {
        family = family.ttl(asked.time_to_live());
    }
    Ok(schema.with_rules_of(&family))
}

/// What `CREATE TABLE` has to say for such a schema.
pub(super) fn items(schema: &Schema) -> Vec<SchemaItem> {
    let mut items = Vec::new();
    for group in schema.groups() {
        let families = group.families().iter().map(item);
        if group.name() == GROUP {
            items.extend(families.map(SchemaItem::Family));
        } else {
            items.push(SchemaItem::Group {
                name: group.name().to_owned().into(),
                families: families.collect(),
            });
        }
    }
    for family in schema.groups().iter().flat_map(AccessGroup::families) {
        let indexes = [(false, family.has_value_index()), (true, family.has_qualifier_index())];
        for (of_qualifiers, _) in indexes.into_iter().filter(|(_, is_kept)| *is_kept) {
            items.push(SchemaItem::Index { of_qualifiers, family: family.name().to_owned().into() });
        }
    }
    items
}

/// The schema, without what a table has given it.
pub(super) fn without_ids(schema: &Schema) -> Schema {
    let groups = schema.groups().iter();
    groups.fold(Schema::new(), |schema, group| schema.group(group.name(), group.families().iter().cloned()))
}

fn need<'s>(schema: &'s Schema, family: &Placed<String>) -> Result<&'s Family> {
    let mut families = schema.groups().iter().flat_map(AccessGroup::families);
    let found = families.find(|other| other.name() == **family);
    found.ok_or_else(|| {
        let error = Error::Impossible(format!("the table has no column family {:?}", **family));
        error.with_hint(family.at(), self::families(family, schema))
    })
}

fn item(family: &Family) -> FamilyItem {
    FamilyItem {
        name: family.name().to_owned().into(),
        max_versions: Some(family.kept_versions().unwrap_or(0)),
        ttl_ms: family.time_to_live().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        is_oldest_first: None,
        is_counter: family.is_counter().then_some(true),
    }
}

/// The access groups with their families, in the order of the text. A group may name families that are defined outside of it.
fn groups(items: &[SchemaItem]) -> Result<Vec<(String, Vec<Family>)>> {
    let mut defined: BTreeMap<&str, &FamilyItem> = BTreeMap::new();
    for item in items {
        match item {
            SchemaItem::Family(family) => {
                if defined.insert(&family.name, family).is_some() {
                    return Err(twice(&family.name));
                }
            }
            SchemaItem::Index { .. } | SchemaItem::Group { .. } => {}
        }
    }
    let (mut groups, mut grouped): (Vec<(String, Vec<Family>)>, _) = (Vec::new(), BTreeSet::new());
    for item in items {
        let SchemaItem::Group { name, families } = item else { continue };
        let mut members = Vec::new();
        for family in families {
            let is_name = *family == FamilyItem { name: family.name.clone(), ..FamilyItem::default() };
            let definition = match defined.get(family.name.as_str()) {
                Some(definition) if is_name => definition,
                Some(_) => return Err(twice(&family.name)),
                None => family,
            };
            if !grouped.insert(family.name.as_str()) {
                return Err(twice(&family.name));
            }
            members.push(self::family(definition)?);
        }
        groups.push((name.to_string(), members));
    }
    let mut rest = Vec::new();
    for item in items {
        if let SchemaItem::Family(family) = item
            && !grouped.contains(family.name.as_str())
        {
            rest.push(self::family(family)?);
        }
    }
    match groups.iter_mut().find(|(name, _)| name == GROUP) {
        Some((_, families)) => families.extend(rest),
        None if rest.is_empty() => {}
        None => groups.insert(0, (GROUP.to_owned(), rest)),
    }
    Ok(groups)
}

fn twice(family: &Placed<String>) -> Error {
    let message = format!("the column family {:?} is defined twice", **family);
    Error::Impossible(message).at(family.at())
}

fn family(item: &FamilyItem) -> Result<Family> {
    if item.is_oldest_first == Some(true) {
        let message = format!(
            "{} TIME_ORDER DESC: it keeps and shows the oldest versions first, and here the latest always come first",
            *item.name
        );
        return Err(Error::Impossible(message).at(item.name.at()));
    }
    let ttl = item.ttl_ms.filter(|ms| *ms > 0);
    let mut family = Family::new(item.name.as_str())
        .ttl(ttl.map(Duration::from_millis))
        .counter(item.is_counter == Some(true));
    if let Some(versions) = item.max_versions {
        family = family.max_versions((versions > 0).then_some(versions));
    }
    Ok(family)
}
