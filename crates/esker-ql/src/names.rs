//! Names that a statement could have meant.

use esker_table::{AccessGroup, Family, Schema};

use crate::error::Error;
use crate::statement::Placed;

/// How many names a message lists.
const LISTED_MAX: usize = 5;

/// A longer name is compared with no other: the effort grows with the product of both lengths.
const COMPARED_MAX: usize = 200;

/// The error that the table has no such family, at its place and with the families that there are.
pub(crate) fn no_family(table: &str, family: &Placed<String>, schema: &Schema) -> Error {
    let error = esker_table::Error::NoFamily { table: table.to_owned(), family: (**family).clone() };
    Error::from(error).with_hint(family.at(), families(family, schema))
}

/// The families of a table, those with a name like `family` first.
pub(crate) fn families(family: &str, schema: &Schema) -> String {
    let families = schema.groups().iter().flat_map(AccessGroup::families);
    let mut names: Vec<(usize, &str)> =
        families.map(Family::name).map(|name| (distance(family, name), name)).collect();
    names.sort_by_key(|(distance, _)| *distance);
    let more = names.len().saturating_sub(LISTED_MAX);
    match (names.is_empty(), more) {
        (true, _) => "it has none".to_owned(),
        (false, 0) => format!("it has {}", listed(&names)),
        (false, more) => format!("it has {} and {more} more", listed(&names)),
    }
}

/// Those of `names` that are like `name`. Empty: none is.
pub(crate) fn similar(name: &str, names: &[String]) -> String {
    let far = name.chars().count() / 3;
    let close = names.iter().map(|other| (distance(name, other), other.as_str()));
    let mut close: Vec<(usize, &str)> = close.filter(|(distance, _)| *distance <= far).collect();
    close.sort_by_key(|(distance, _)| *distance);
    match close.is_empty() {
        true => String::new(),
        false => format!("there is {}", listed(&close)),
    }
}

fn listed(names: &[(usize, &str)]) -> String {
    let names: Vec<String> = names.iter().take(LISTED_MAX).map(|(_, name)| format!("{name:?}")).collect();
    names.join(", ")
}

/// How many characters have to be replaced, added or removed to make one name of the other; `usize::MAX`: a name is too long.
/// Case does not count.
fn distance(one: &str, other: &str) -> usize {
    if one.len().max(other.len()) > COMPARED_MAX {
        return usize::MAX;
    }
    let lower = |name: &str| name.to_lowercase().chars().collect::<Vec<char>>();
    let (one, other) = (lower(one), lower(other));
    // Distances between the part of `one` that was passed and each beginning of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (passed, letter) in one.iter().enumerate() {
        let mut last = passed + 1;
        let mut next = vec![last];
        for (pair, target) in row.windows(2).zip(&other) {
            let (diagonal, above) = (pair.first().copied().unwrap_or(0), pair.last().copied().unwrap_or(0));
            last = (diagonal + usize::from(letter != target)).min(above + 1).min(last + 1);
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{distance, similar};

    #[test]
    fn the_distance_is_how_many_characters_differ() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("temp", "TEMP", 0),
            ("tmp", "temp", 1),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn names_that_are_far_are_not_similar() {
        let names = ["photos".to_owned(), "photo".to_owned(), "sensors".to_owned()];
        assert_eq!(similar("phots", &names), "there is \"photos\", \"photo\"");
        assert_eq!(similar("x", &names), "");
        assert_eq!(similar(&"p".repeat(1000), &names), "");
    }
}
