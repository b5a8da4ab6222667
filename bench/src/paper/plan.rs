//! What is measured: sizes of values, how many of each, and the mixes.

use crate::data::Draws;

/// One size of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) name: &'static str,
    pub(super) bytes: usize,
    /// Values in the default run.
    scaled: usize,
    /// Values with `--full`: the paper's 100, or as many as make 13.6 GB.
    full: usize,
}

const MB: usize = 1_000_000;

/// The paper's eight, of which its text gives the sixth and the last.
pub(super) const SIZES: [Size; 8] = [
    Size { name: "64KB", bytes: 64 << 10, scaled: 8000, full: 8000 },
    Size { name: "256KB", bytes: 256 << 10, scaled: 2000, full: 2000 },
    Size { name: "1MB", bytes: 1 << 20, scaled: 500, full: 500 },
    Size { name: "4MB", bytes: 4 << 20, scaled: 128, full: 128 },
    Size { name: "19.7MB", bytes: 19_700_000, scaled: 26, full: 100 },
    Size { name: "64MB", bytes: 64 << 20, scaled: 10, full: 100 },
    Size { name: "256MB", bytes: 256 << 20, scaled: 4, full: 50 },
    Size { name: "645MB", bytes: 645 * MB, scaled: 3, full: 21 },
];

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Some twenty minutes: fewer values where they are large.
    Scaled,
    /// The paper's numbers, as far as 13.6 GB allow.
    Full,
    /// 100 values of 645 MB, 64.5 GB, and no other size.
    Largest,
}

impl Scale {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scale::Scaled => "scaled",
            Scale::Full => "full",
            Scale::Largest => "largest",
        }
    }

    pub(super) fn of_name(name: &str) -> Option<Scale> {
        [Scale::Scaled, Scale::Full, Scale::Largest].into_iter().find(|scale| scale.name() == name)
    }

    /// Values of `size`.
    pub(super) fn keys(self, size: &Size) -> usize {
        match self {
            Scale::Scaled => size.scaled,
            Scale::Full => size.full,
            Scale::Largest => 100,
        }
    }

    pub(super) fn sizes(self) -> &'static [Size] {
        if self == Scale::Largest { &SIZES[7..] } else { &SIZES }
    }

    /// The lengths of the 100 values that a mix begins with, in the order in which they are put.
    pub(super) fn mix_lengths(self, draws: Draws) -> Vec<usize> {
        let counts: [usize; 8] = match self {
            // 2.1 GB.
            Scale::Scaled => [30, 20, 15, 14, 10, 7, 3, 1],
            // With the one below 13.59 GB, as the paper's.
            Scale::Full | Scale::Largest => [28, 1, 2, 8, 13, 18, 20, 9],
        };
        let mut lengths: Vec<usize> =
            SIZES.iter().zip(counts).flat_map(|(size, count)| vec![size.bytes; count]).collect();
        if self != Scale::Scaled {
            lengths.push(914_770_000);
        }
        shuffle(&mut lengths, draws);
        lengths
    }
}

/// A mixed workload of 100 operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) name: &'static str,
    pub(super) gets: usize,
    pub(super) puts: usize,
}

pub(super) const MIXES: [Mix; 3] = [
    Mix { name: "read-heavy", gets: 70, puts: 15 },
    Mix { name: "average", gets: 50, puts: 25 },
    Mix { name: "write-heavy", gets: 30, puts: 35 },
];

/// An operation of a mix; an update deletes a pair and puts a new one of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Get,
    Put,
    Update,
}

impl Mix {
    /// The 100 operations in a random order.
    pub(super) fn operations(&self, draws: Draws) -> Vec<Operation> {
        let mut operations = vec![Operation::Get; self.gets];
        operations.resize(self.gets + self.puts, Operation::Put);
        operations.resize(100, Operation::Update);
        shuffle(&mut operations, draws);
        operations
    }
}

pub(super) fn shuffle<T>(items: &mut [T], draws: Draws) {
    for i in (1..items.len()).rev() {
        items.swap(i, draws.below(i as u64, i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mix_is_as_large_as_the_papers() {
        let lengths = Scale::Full.mix_lengths(Draws::new(1, 1));
        let sum: usize = lengths.iter().sum();
        assert_eq!((lengths.len(), lengths.iter().max()), (100, Some(&914_770_000)));
        assert!((13_585..13_595).contains(&(sum / MB)), "{sum}");
        assert_eq!(Scale::Scaled.mix_lengths(Draws::new(1, 1)).len(), 100);
    }

    #[test]
    fn a_mix_has_a_hundred_operations() {
        for mix in MIXES {
            let operations = mix.operations(Draws::new(3, 1));
            let count = |kind| operations.iter().filter(|&&o| o == kind).count();
            assert_eq!(
                (operations.len(), count(Operation::Get), count(Operation::Put)),
                (100, mix.gets, mix.puts)
            );
        }
    }
}
