//! Options that a statement gives for all families of an access group or table. A family that says nothing itself has them.

use std::collections::BTreeMap;

use crate::statement::{FamilyItem, SchemaItem};

/// Gives families the options of their access groups, which are here by their places in `items`. A group may name families that
/// are defined outside of it: then the definition gets the options.
pub(super) fn of_groups(items: &mut [SchemaItem], options: &[(usize, FamilyItem)]) {
    if options.is_empty() {
        return;
    }
    let defined = defined(items);
    for (place, options) in options {
        let Some(SchemaItem::Group { families, .. }) = items.get_mut(*place) else { continue };
        let mut elsewhere = Vec::new();
        for family in families {
            match defined.get(family.name.as_str()) {
                Some(definition) => elsewhere.push(*definition),
                None => fill(family, options),
            }
        }
        for definition in elsewhere {
            if let Some(SchemaItem::Family(family)) = items.get_mut(definition) {
                fill(family, options);
            }
        }
    }
}

/// Gives all families the options of the table.
pub(super) fn of_table(items: &mut [SchemaItem], options: &FamilyItem) {
    if *options == FamilyItem::default() {
        return;
    }
    let defined = defined(items);
    for item in items {
        match item {
            SchemaItem::Family(family) => fill(family, options),
            SchemaItem::Group { families, .. } => {
                let own = families.iter_mut().filter(|family| !defined.contains_key(family.name.as_str()));
                own.for_each(|family| fill(family, options));
            }
            SchemaItem::Index { .. } => {}
        }
    }
}

/// The places of the families that are in no access group, or are only named there.
fn defined(items: &[SchemaItem]) -> BTreeMap<String, usize> {
    let families = items.iter().enumerate().filter_map(|(place, item)| match item {
        SchemaItem::Family(family) => Some((family.name.to_string(), place)),
        _ => None,
    });
    families.collect()
}

fn fill(family: &mut FamilyItem, options: &FamilyItem) {
    family.max_versions = family.max_versions.or(options.max_versions);
    family.ttl_ms = family.ttl_ms.or(options.ttl_ms);
    family.is_oldest_first = family.is_oldest_first.or(options.is_oldest_first);
    family.is_counter = family.is_counter.or(options.is_counter);
}
