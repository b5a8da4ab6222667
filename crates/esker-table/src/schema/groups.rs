//! The access groups of a schema, and where each family is among them.
//!
//! ```text
//! groups    a: x, k    b: c                 up to FEW families are looked through
//! by name   b.0 (c)    a.1 (k)    a.0 (x)   more are found by halves, here by name
//! by number a.1 (2)    b.0 (5)    a.0 (7)   and here by number
//! ```
//! The orders are made by the first look-up behind a change of the groups. Of two families with one name or number, which no
//! table has, the first one is found.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use super::family::{AccessGroup, Family};
use crate::cell::FamilyId;

/// So many families are looked through faster than by halves.
const FEW: usize = 16;

/// The place of a group, and of a family in it.
type Place = (usize, usize);

/// Access groups. A mutable borrow discards the orders.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    all: Vec<AccessGroup>,
    /// `None`: families are few.
    orders: OnceLock<Option<Orders>>,
}

#[derive(Debug, Clone)]
struct Orders {
    by_name: Box<[Place]>,
    by_number: Box<[Place]>,
}

impl PartialEq for Groups {
    fn eq(&self, other: &Groups) -> bool {
        self.all == other.all
    }
}

impl Eq for Groups {}

impl Deref for Groups {
    type Target = Vec<AccessGroup>;

    fn deref(&self) -> &Vec<AccessGroup> {
        &self.all
    }
}

impl DerefMut for Groups {
    fn deref_mut(&mut self) -> &mut Vec<AccessGroup> {
        self.orders.take();
        &mut self.all
    }
}

impl Groups {
    /// All families, with the place of the group that each is in.
    pub(super) fn families(&self) -> impl Iterator<Item = (usize, &Family)> {
        self.places().map(|(group, family)| (group, self.at((group, family))))
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let groups = self.all.iter().enumerate();
        groups.flat_map(|(place, group)| (0..group.families.len()).map(move |family| (place, family)))
    }

    fn at(&self, (group, family): Place) -> &Family {
        &self.all[group].families[family]
    }

    fn orders(&self) -> Option<&Orders> {
        let count = || self.all.iter().map(|group| group.families.len()).sum::<usize>();
        let make = || (count() > FEW).then(|| self.make_orders());
        self.orders.get_or_init(make).as_ref()
    }

    fn make_orders(&self) -> Orders {
        let (mut by_name, mut by_number): (Box<[Place]>, Box<[Place]>) =
            (self.places().collect(), self.places().collect());
        by_name.sort_by(|one, other| self.at(*one).name.cmp(&self.at(*other).name));
        by_number.sort_by_key(|place| self.at(*place).id);
        Orders { by_name, by_number }
    }

    /// The family with this name, and the place of its group.
    pub(super) fn named(&self, name: &str) -> Option<(usize, &Family)> {
        let is_before = |family: &Family| family.name.as_str() < name;
        self.find(|orders| &orders.by_name, is_before, |family| family.name == name)
    }

    /// The family with this number, and the place of its group.
    pub(super) fn numbered(&self, number: FamilyId) -> Option<(usize, &Family)> {
        let is_before = |family: &Family| family.id < number;
        self.find(|orders| &orders.by_number, is_before, |family| family.id == number)
    }

    fn find(
        &self,
        order: fn(&Orders) -> &[Place],
        is_before: impl Fn(&Family) -> bool,
        is_it: impl Fn(&Family) -> bool,
    ) -> Option<(usize, &Family)> {
        let is_it = |family: &Family| {
            work::note();
            is_it(family)
        };
        let Some(orders) = self.orders() else {
            return self.families().find(|(_, family)| is_it(family));
        };
        let order = order(orders);
        let next = order.partition_point(|place| {
            work::note();
            is_before(self.at(*place))
        });
        let place = *order.get(next)?;
        Some((place.0, self.at(place))).filter(|(_, family)| is_it(family))
    }
}

/// How much look-ups do, for tests.
pub(crate) mod work {
    #[cfg(test)]
    thread_local! {
        static COMPARED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    /// Notes that a look-up has looked at a family.
    #[inline]
    pub(crate) fn note() {
        #[cfg(test)]
        COMPARED.with(|compared| compared.set(compared.get() + 1));
    }

    /// At how many families look-ups of this thread have looked since this was asked last.
    #[cfg(test)]
    pub(crate) fn take() -> u64 {
        COMPARED.with(|compared| compared.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use super::*;

    /// A few names and numbers are there twice: schemas that nobody has checked are searched too.
    #[test]
    fn families_are_found_where_the_first_of_them_is() {
        for count in [0_u16, 1, 15, 16, 17, 500] {
            let mut schema = Schema::new();
            for family in 0..count {
                schema = schema
                    .with_family(&format!("g{}", family % 7), Family::new(format!("f{}", family * 7 % 490)));
            }
            for (place, family) in schema.groups.iter_mut().flat_map(|group| &mut group.families).enumerate()
            {
                family.id = place as FamilyId * 3 % 400;
            }
            for round in 0..3 {
                let name = format!("f{}", round * 7);
                for name in [&name, "f", "g", "h"]
                    .into_iter()
                    .chain(schema.families().map(|(_, family)| family.name()))
                {
                    let first = schema.families().find(|(_, family)| family.name == name);
                    assert_eq!(schema.family(name), first, "{name:?} of {count}");
                }
                for number in (0..450).chain([FamilyId::MAX]) {
                    let first = schema.families().find(|(_, family)| family.id == number);
                    assert_eq!(schema.family_numbered(number), first, "{number} of {count}");
                }
                // Each change is known to the next look-up.
                schema = match round {
                    0 => schema.without_family(&name),
                    _ => schema.with_family_renamed("f7", "g").with_family("more", Family::new("h")),
                };
            }
        }
    }
}
