//! What a table is made of: access groups, and column families with their rules.

mod family;
mod groups;
mod xml;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cell::{FamilyId, NO_FAMILY};
use crate::error::{Error, Result};
pub use family::{AccessGroup, Family, VERSIONS_DEFAULT};
use family::{GroupId, NO_GROUP};
pub(crate) use family::{Index, Moment, Rules};
use groups::Groups;
#[cfg(test)]
pub(crate) use groups::work;

/// The longest name of a table, an access group or a column family, in bytes.
pub const NAME_LEN_MAX: usize = 200;

/// The most column families that a table has or ever had.
const FAMILIES_MAX: usize = 10_000;

/// How many access groups a table has at most. Each is a tree, which a delete of a row writes to and a scan of all families opens.
const GROUPS_MAX: usize = 1_000;

/// What a table is made of.
///
/// A table has access groups, and each column family is in one of them. The cells of an access group lie together, apart
/// from those of the others: a scan of one group reads nothing of the others.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use esker_table::{Family, Schema};
///
/// let schema = Schema::new()
///     .group("small", [Family::new("title"), Family::new("seen").max_versions(1).ttl(Duration::from_secs(3600))])
///     .group("large", [Family::new("original").max_versions(1)]);
/// let text = schema.to_xml()?;
/// assert_eq!(Schema::from_xml(&text)?, schema);
/// # Ok::<(), esker_table::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// The table's number in its store; 0: it is none yet.
    pub(crate) table: u64,
    /// Counts the changes of the table's schema.
    pub(crate) version: u64,
    /// Lower numbers of families and groups were given out; 0: the table has not begun to.
    next_family: FamilyId,
    next_group: GroupId,
    /// Whether the table may not be read or written for now.
    pub(crate) is_disabled: bool,
    groups: Groups,
}

impl Schema {
    /// A table of nothing.
    pub fn new() -> Schema {
        Schema::default()
    }

    /// Adds an access group with these families.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>, families: impl IntoIterator<Item = Family>) -> Schema {
        let families = families.into_iter().map(Family::without_past).collect();
        self.groups.push(AccessGroup { id: NO_GROUP, name: name.into(), families });
        self
    }

    /// How often the table's schema was changed.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its access groups.
    pub fn groups(&self) -> &[AccessGroup] {
        &self.groups
    }

    /// All families, with the place of the group that each is in.
    pub(crate) fn families(&self) -> impl Iterator<Item = (usize, &Family)> {
        self.groups.families()
    }

    /// The family with this name, and the place of its group.
    pub(crate) fn family(&self, name: &str) -> Option<(usize, &Family)> {
        self.groups.named(name)
    }

    /// The family with this number, and the place of its group.
    pub(crate) fn family_numbered(&self, number: FamilyId) -> Option<(usize, &Family)> {
        self.groups.numbered(number)
    }

    /// Adds a family to the group with this name, or to a new group.
    #[must_use]
    pub fn with_family(mut self, group: &str, family: Family) -> Schema {
        match self.groups.iter_mut().find(|other| other.name == group) {
            Some(group) => group.families.push(family.without_past()),
            None => return self.group(group, [family]),
        }
        self
    }

    /// Drops the family with this name, if there is one, and its group if that has no other.
    #[must_use]
    pub fn without_family(mut self, name: &str) -> Schema {
        for group in self.groups.iter_mut() {
            group.families.retain(|family| family.name != name);
        }
        self.groups.retain(|group| !group.families.is_empty());
        self
    }

    /// Gives another name to the family `from`, if there is one.
    #[must_use]
    pub fn with_family_renamed(mut self, from: &str, to: &str) -> Schema {
        let mut families = self.groups.iter_mut().flat_map(|group| &mut group.families);
        if let Some(family) = families.find(|family| family.name == from) {
            family.name = to.to_owned();
        }
        self
    }

    /// Gives the rules of `family` to the family with its name, if there is one.
    #[must_use]
    pub fn with_rules_of(mut self, family: &Family) -> Schema {
        let mut families = self.groups.iter_mut().flat_map(|group| &mut group.families);
        if let Some(found) = families.find(|other| other.name == family.name) {
            found.max_versions = family.max_versions;
            (found.ttl_ms, found.is_counter) = (family.ttl_ms, family.is_counter);
            (found.value_index, found.qualifier_index) = (family.value_index, family.qualifier_index);
        }
        self
    }

    /// The schema of a new table with the number `table`: its groups and families have numbers, families in the order of
    /// their names.
    pub(crate) fn numbered(mut self, table: u64) -> Result<Schema> {
        self.check()?;
        (self.table, self.version, self.is_disabled) = (table, 1, false);
        for (place, group) in self.groups.iter_mut().enumerate() {
            group.id = place as GroupId + 1;
        }
        let mut families: Vec<&mut Family> =
            self.groups.iter_mut().flat_map(|group| &mut group.families).collect();
        families.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        for (family, id) in families.iter_mut().zip(1..) {
            (family.id, family.has_deleted_versions, family.past) = (id, false, Arc::default());
            family.made_anew();
        }
        self.next_family = families.len() as FamilyId + 1;
        self.next_group = self.groups.len() as GroupId + 1;
        Ok(self)
    }

    /// `new`, as the schema of this table from `at` on. Groups and families of `new` that have numbers are those of this
    /// table with these numbers; the others are those with their names, or new ones.
    ///
    /// # Errors
    /// `SchemaChanged` when `new` was made from another version than this one; `Schema` when the table cannot become so.
    pub(crate) fn altered(&self, mut new: Schema, at: Moment) -> Result<Schema> {
        new.check()?;
        if new.table != 0 && new.table != self.table {
            return Err(Error::schema("this is the schema of another table"));
        }
        let has_numbers = new.groups.iter().any(|group| group.id != NO_GROUP)
            || new.families().any(|(_, family)| family.id != NO_FAMILY);
        if new.table == 0 && has_numbers {
            return Err(Error::schema(
                "groups or families have numbers, and the schema does not say of which table",
            ));
        }
        if new.version != 0 && new.version != self.version {
            return Err(Error::SchemaChanged { expected: new.version, found: self.version });
        }
        (new.table, new.version, new.is_disabled) =
            (self.table, self.version.saturating_add(1), self.is_disabled);
        (new.next_family, new.next_group) = (self.next_family, self.next_group);
        // A table may have thousands of them.
        let by_name: BTreeMap<&str, GroupId> =
            self.groups.iter().map(|group| (group.name.as_str(), group.id)).collect();
        let by_number: BTreeSet<GroupId> = self.groups.iter().map(|group| group.id).collect();
        for group in new.groups.iter_mut() {
            let old = match group.id {
                NO_GROUP => by_name.get(group.name.as_str()),
                id => by_number.get(&id),
            };
            group.id = match old {
                Some(old) => *old,
                None if group.id == NO_GROUP => number(&mut new.next_group, "access groups")?,
                None => {
                    return Err(Error::schema(format!("the table has no access group number {}", group.id)));
                }
            };
            for family in &mut group.families {
                let old = match family.id {
                    NO_FAMILY => self.family(&family.name),
                    id => self.family_numbered(id),
                };
                match old {
                    Some((place, _)) if self.groups[place].id != group.id => {
                        let (family, from, to) = (&family.name, &self.groups[place].name, &group.name);
                        return Err(Error::schema(format!(
                            "the column family {family:?} is in the access group {from:?} and cannot go to {to:?}"
                        )));
                    }
                    Some((_, old)) => family.succeed(old, at),
                    None if family.id == NO_FAMILY => {
                        family.id = number(&mut new.next_family, "column families")?;
                        (family.has_deleted_versions, family.past) = (false, Arc::default());
                        family.made_anew();
                    }
                    None => {
                        let id = family.id;
                        return Err(Error::schema(format!("the table has no column family number {id}")));
                    }
                }
            }
        }
        // Two of them may have become the same one.
        new.check()?;
        Ok(new)
    }

    /// The number that the next new family gets.
    pub(crate) fn next_family(&self) -> FamilyId {
        self.next_family
    }

    /// The schema, noting that single versions may have been deleted in these families.
    pub(crate) fn with_deleted_versions(&self, families: &BTreeSet<FamilyId>) -> Schema {
        let mut schema = self.clone();
        let all = schema.groups.iter_mut().flat_map(|group| &mut group.families);
        for family in all.filter(|family| families.contains(&family.id)) {
            family.has_deleted_versions = true;
        }
        schema
    }

    /// Whether a family has an index.
    pub(crate) fn has_index(&self) -> bool {
        self.families().any(|(_, family)| family.has_index())
    }

    /// Whether what the table had before is still to be entered into an index.
    pub(crate) fn is_building(&self) -> bool {
        self.families().any(|(_, family)| family.is_building())
    }

    /// The schema, whose indexes lack nothing.
    pub(crate) fn with_ready_indexes(&self) -> Schema {
        let mut schema = self.clone();
        schema.groups.iter_mut().flat_map(|group| &mut group.families).for_each(Family::made_anew);
        schema
    }

    /// Whether it is that of a table that exists: everything has its number.
    pub(crate) fn is_numbered(&self) -> bool {
        let is_given = |id: u16, next: u16| id > 0 && id < next;
        self.table > 0
            && self.groups.iter().all(|group| is_given(group.id, self.next_group))
            && self.families().all(|(_, family)| is_given(family.id, self.next_family))
    }

    /// Fails if no table can have this schema.
    pub(super) fn check(&self) -> Result<()> {
        let (mut groups, mut group_ids) = (BTreeSet::new(), BTreeSet::new());
        let (mut families, mut ids) = (BTreeSet::new(), BTreeSet::new());
        if self.families().next().is_none() {
            return Err(Error::schema("a table has one column family at least"));
        }
        if self.families().count() > FAMILIES_MAX {
            return Err(Error::schema(format!("a table has {FAMILIES_MAX} column families at most")));
        }
        if self.groups.len() > GROUPS_MAX {
            return Err(Error::schema(format!("a table has {GROUPS_MAX} access groups at most")));
        }
        for group in self.groups.iter() {
            check_name("an access group", &group.name).map_err(|error| Error::schema(error.to_string()))?;
            if group.id != NO_GROUP && !group_ids.insert(group.id) {
                return Err(Error::schema(format!("two access groups have the number {}", group.id)));
            }
            if !groups.insert(&group.name) {
                return Err(Error::schema(format!("two access groups have the name {:?}", group.name)));
            }
        }
        for (_, family) in self.families() {
            check_name("a column family", &family.name).map_err(|error| Error::schema(error.to_string()))?;
            if !families.insert(&family.name) {
                return Err(Error::schema(format!("two column families have the name {:?}", family.name)));
            }
            if family.id != NO_FAMILY && !ids.insert(family.id) {
                return Err(Error::schema(format!("two column families have the number {}", family.id)));
            }
            if family.max_versions == Some(0) {
                return Err(Error::schema(format!(
                    "the column family {:?} keeps no version at all",
                    family.name
                )));
            }
        }
        Ok(())
    }
}

/// The next number, which nothing had before.
fn number(next: &mut u16, of_what: &str) -> Result<u16> {
    let number = *next;
    if usize::from(number) > FAMILIES_MAX {
        return Err(Error::schema(format!(
            "a table has {FAMILIES_MAX} {of_what} at most, with dropped ones"
        )));
    }
    *next += 1;
    Ok(number)
}

/// Fails if `name`, that of `what`, cannot be: an empty or long one, or one with other characters than letters, digits, `_`,
/// `-` and `.`, or that begins with `-` or `.`. Those of HBase's tables, access groups and families that have such names are
/// the ones that every tool can handle.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let is_legal = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let len = name.len();
        return Err(Error::invalid(format!(
            "the name of {what} has 1 to {NAME_LEN_MAX} bytes; this one has {len}"
        )));
    }
    if name.starts_with(['-', '.']) || !name.chars().all(is_legal) {
        return Err(Error::invalid(format!(
            "the name of {what} has letters, digits, `_`, `-` and `.`, and begins with none of the last two; {name:?} is none"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::family::Past;
    use super::*;

    fn sample() -> Schema {
        Schema::new()
            .group(
                "small",
                [Family::new("títle"), Family::new("seen").max_versions(1).ttl(Duration::from_secs(60))],
            )
            .group("large", [Family::new("original").max_versions(None)])
            .group("empty", [])
    }

    #[test]
    fn a_schema_is_read_as_it_was_written() {
        for schema in [sample(), sample().numbered(7).unwrap()] {
            let text = schema.to_xml().unwrap();
            assert_eq!(Schema::from_xml(&text).unwrap(), schema, "{text}");
        }
    }

    #[test]
    fn families_are_numbered_by_their_names() {
        let schema = sample().numbered(7).unwrap();
        let ids: Vec<_> = schema.families().map(|(_, family)| (family.name(), family.id)).collect();
        assert_eq!(ids, [("títle", 3), ("seen", 2), ("original", 1)]);
    }

    /// The past of a family with the first of these rules, changed to the others at the sequence numbers 10, 20, ... and the times
    /// 1,000, 2,000, ...
    fn past(has_deleted_versions: bool, rules: &[(Option<u32>, Option<u64>)]) -> Past {
        let mut now = Rules { has_deleted_versions, ..Rules::of(rules[0].0, rules[0].1) };
        for (place, (max_versions, ttl_ms)) in (1..).zip(&rules[1..]) {
            now = now.changed(
                *max_versions,
                *ttl_ms,
                Moment { sequence: place * 10, now_ms: place as i64 * 1000 },
            );
        }
        (*now.past).clone()
    }

    #[test]
    fn a_family_keeps_of_its_limits_those_that_matter() {
        type Case<'a> = (bool, &'a [Option<u32>], &'a [(u64, Option<u32>)]);
        let cases: &[Case<'_>] = &[
            (false, &[Some(3), Some(3)], &[]),
            (false, &[Some(3), Some(2)], &[]),
            (false, &[None, Some(3)], &[]),
            (false, &[Some(3), Some(5)], &[(10, Some(3))]),
            (false, &[Some(3), None], &[(10, Some(3))]),
            (false, &[Some(3), Some(5), Some(7)], &[(10, Some(3)), (20, Some(5))]),
            // What the lower limit would have removed, it removes.
            (false, &[Some(3), Some(5), Some(4)], &[(10, Some(3))]),
            (false, &[Some(3), Some(5), Some(3)], &[]),
            (false, &[Some(3), None, Some(2)], &[]),
            (false, &[None, Some(3), None], &[(20, Some(3))]),
            // Which of the versions are surplus, every limit decides.
            (true, &[Some(3), Some(3)], &[]),
            (true, &[Some(3), Some(2)], &[(10, Some(3))]),
            (true, &[None, Some(3)], &[(10, None)]),
            (true, &[Some(3), Some(5), Some(3)], &[(10, Some(3)), (20, Some(5))]),
        ];
        for (has_deleted_versions, limits, expected) in cases {
            let rules: Vec<_> = limits.iter().map(|limit| (*limit, None)).collect();
            let found = past(*has_deleted_versions, &rules);
            assert_eq!((&found.limits[..], found.expired.len()), (*expected, 0), "{limits:?}");
        }
    }

    #[test]
    fn a_family_keeps_of_its_times_to_live_those_that_matter() {
        type Case<'a> = (&'a [Option<u64>], &'a [(u64, i64)]);
        let cases: &[Case<'_>] = &[
            (&[Some(100), Some(100)], &[]),
            (&[Some(100), Some(50)], &[]),
            (&[None, Some(100)], &[]),
            (&[Some(100), Some(200)], &[(10, 900)]),
            (&[Some(100), None], &[(10, 900)]),
            (&[Some(100), None, Some(50)], &[(10, 900)]),
            // All that had expired the first time has expired the second time too.
            (&[Some(100), Some(200), None], &[(20, 1800)]),
            (&[Some(100), Some(1100), None], &[(20, 900)]),
            (&[Some(100), Some(1101), None], &[(10, 900), (20, 899)]),
        ];
        for (times, expected) in cases {
            let found = past(false, &times.iter().map(|ttl_ms| (None, *ttl_ms)).collect::<Vec<_>>());
            assert_eq!((found.limits.len(), &found.expired[..]), (0, *expected), "{times:?}");
        }
    }

    const AT: Moment = Moment { sequence: 10, now_ms: 1000 };

    #[test]
    fn an_altered_schema_has_the_numbers_of_its_table() {
        let mut old = sample().numbered(7).unwrap();
        (old.is_disabled, old.version) = (true, 5);
        // What a text claims of a new family and of the table, the table knows better.
        let text = "<Schema table=\"7\" version=\"5\" nextFamily=\"90\" nextGroup=\"90\"><AccessGroup name=\"small\">\
            <ColumnFamily name=\"new\" versionsDeleted=\"true\" index=\"building\"><Before sequence=\"3\" maxVersions=\"1\"/>\
            </ColumnFamily><ColumnFamily name=\"seen\"/></AccessGroup><AccessGroup name=\"more\"/></Schema>";
        let new = old.altered(Schema::from_xml(text).unwrap(), AT).unwrap();
        assert!(new.is_numbered() && new.is_disabled);
        assert_eq!((new.table, new.version, new.next_family, new.next_group), (7, 6, 5, 5));
        assert_eq!(new.groups.iter().map(|group| group.id).collect::<Vec<_>>(), [1, 4]);
        let families: Vec<_> = new.families().map(|(_, family)| (family.name(), family.id)).collect();
        assert_eq!(families, [("new", 4), ("seen", 2)]);
        let family = new.family("new").unwrap().1;
        assert_eq!((family.has_deleted_versions, &*family.past), (false, &Past::default()));
        assert_eq!(family.value_index, Index::Ready);
        // The next one has the next number, also if that one is dropped.
        let without = new.altered(new.clone().without_family("new"), AT).unwrap();
        let last = without.altered(without.clone().with_family("b", Family::new("new")), AT).unwrap();
        assert_eq!((last.family("new").unwrap().1.id, last.next_family, last.next_group), (5, 6, 6));
        // An index that a family had is ready as it was; one that it gets is to be built.
        let indexed = |schema: &Schema, family: Family| {
            schema
                .altered(schema.clone().with_rules_of(&family), AT)
                .unwrap()
                .family(family.name())
                .unwrap()
                .1
                .clone()
        };
        let both = |name: &str| Family::new(name).index_values(true).index_qualifiers(true);
        let found = indexed(&new, both("new"));
        assert_eq!((found.value_index, found.qualifier_index), (Index::Ready, Index::Building));
        assert!(!indexed(&new, Family::new("new")).has_index());
    }

    #[test]
    fn what_a_table_cannot_become_is_refused() {
        let old = sample().numbered(7).unwrap();
        let text = old.to_xml().unwrap();
        let seen = "<ColumnFamily id=\"2\" name=\"seen\"";
        for (from, to, what) in [
            ("table=\"7\"", "table=\"8\"", "another table"),
            (" table=\"7\"", "", "does not say of which table"),
            ("<AccessGroup id=\"1\"", "<AccessGroup id=\"9\"", "no access group number 9"),
            (seen, "<ColumnFamily id=\"9\" name=\"seen\"", "no column family number 9"),
            // Two become the same one.
            ("id=\"2\" name=\"seen\"", "name=\"seen\"/><ColumnFamily id=\"2\" name=\"two\"", "the number 2"),
            ("id=\"1\" name=\"original\"", "id=\"3\" name=\"original\"", "the number 3"),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text, "{from}");
            match Schema::from_xml(&bad).and_then(|schema| old.altered(schema, AT)) {
                Err(Error::Schema { message, .. }) => assert!(message.contains(what), "{bad}: {message}"),
                other => panic!("{bad}: {other:?}"),
            }
        }
        // Also if only families have numbers.
        let families = "<Schema><AccessGroup name=\"small\"><ColumnFamily id=\"2\" name=\"seen\"/></AccessGroup></Schema>";
        let families = old.altered(Schema::from_xml(families).unwrap(), AT);
        assert!(matches!(families, Err(Error::Schema { message, .. }) if message.contains("of which table")));
        // A family keeps to its group, by name and by number.
        let moved = Schema::new().group("large", [Family::new("original"), Family::new("seen")]);
        assert!(
            matches!(old.altered(moved, AT), Err(Error::Schema { message, .. }) if message.contains("cannot go"))
        );
        assert!(old.altered(Schema::new(), AT).is_err());
        // A change of another version.
        let next = old.altered(old.clone(), AT).unwrap();
        let late = next.altered(old.clone(), AT);
        assert!(matches!(late, Err(Error::SchemaChanged { expected: 1, found: 2 })), "{late:?}");
        assert!(next.altered(sample(), AT).is_ok());
    }

    #[test]
    fn what_no_table_can_have_is_refused() {
        let group =
            |families: &[&str]| Schema::new().group("a", families.iter().map(|name| Family::new(*name)));
        for schema in [
            Schema::new(),
            group(&[]),
            group(&["f", "f"]),
            group(&["f:q"]),
            group(&[""]),
            group(&[".f"]),
            group(&["f"]).group("a", []),
            group(&["f"]).group("b", [Family::new("f")]),
            Schema::new().group("a", [Family::new("f").max_versions(0)]),
        ] {
            assert!(schema.to_xml().is_err(), "{schema:?}");
            assert!(schema.clone().numbered(1).is_err(), "{schema:?}");
        }
    }

    #[test]
    fn a_text_that_is_no_schema_is_refused_with_its_place() {
        let good = sample().to_xml().unwrap();
        for (from, to, what) in [
            ("<Schema", "<Scheme", "Scheme"),
            ("maxVersions=\"1\"", "maxVersions=\"-1\"", "-1"),
            ("maxVersions=\"1\"", "maxVersion=\"1\"", "maxVersion"),
            ("ttlMs=\"60000\"", "ttlMs=\"60000\" ttlMs=\"1\"", "ttlMs"),
            ("<AccessGroup name=\"large\">", "<AccessGroup>", "name"),
            ("</Schema>", "", "Schema"),
            ("</Schema>", "</Schema><Schema/>", "Schema"),
            ("<Schema", "<!DOCTYPE a [<!ENTITY b \"c\">]><Schema", "DOCTYPE"),
            ("name=\"large\"", "name=\"&b;\"", "b"),
            ("</Schema>", "words</Schema>", "words"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            match Schema::from_xml(&bad) {
                Err(Error::Schema { message, at: Some(at) }) => {
                    assert!(message.contains(what) && at <= bad.len() as u64, "{bad}: {message}");
                }
                other => panic!("{bad}: {other:?}"),
            }
        }
        for cut in 0..good.trim_end().len() {
            if good.is_char_boundary(cut) {
                assert!(Schema::from_xml(&good[..cut]).is_err(), "{cut}");
            }
        }
    }
}
