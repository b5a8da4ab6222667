//! Draws a random element of a large collection without a walk through it.
//!
//! ```text
//! all elements --> those with one next byte --> those with one byte behind it --> ... --> a bucket --> one element
//! ```
//! Each step divides a part of the elements by the first byte in which they differ, and takes one of the smaller parts,
//! with a chance that is known. A part of about [`BUCKET`] elements is counted: it is the bucket.
//!
//! Parts with the same chance may differ in size: of the members `1` to `15000`, more than a third begin with `1`. So a
//! bucket is accepted only in proportion to its size divided by its chance, else another one is drawn (rejection sampling,
//! von Neumann 1951). What is drawn often for its size is accepted rarely, and without limits to it all elements would be
//! equally likely. The limits: what is drawn too rarely is accepted always, but not more than that ([`SURPLUS`]), and
//! after [`DRAWS_MAX`] draws one of the buckets drawn is taken. Then elements that share a long or crowded beginning come
//! less often than others.
//!
//! Most collections are even enough. If the first draws are all refused, a few elements are hiding the others, as 26 stray
//! words do beside 10,000 members that begin with `user:`. The next draws are *careful*: they count small parts, and
//! give the rest of the chance to the large ones.

use crate::commands::collections::miscounted;
use crate::context::Context;
use crate::entry::behind;
use crate::fault::ReadError;
use crate::model::Collection;
use crate::session::Bounds;

/// A part of about so many elements is not divided further.
const BUCKET: u64 = 256;

/// The most steps to a bucket.
const STEPS_MAX: usize = 16;

/// The most draws for one element, and how many of them are not careful.
const DRAWS_MAX: usize = 24;
const QUICK_DRAWS: usize = 12;

/// A bucket is always accepted if it has so many times the elements that its chance promises.
const SURPLUS: f64 = 4.0;

/// One of so few bytes is taken by chance in a quick draw, without a look for parts: they are digits, most likely, and
/// all of them begin a part.
const DENSE: u64 = 10;

/// The most parts that are looked for in a quick draw. Where there are more, a byte is taken by chance.
const QUICK_PARTS_MAX: usize = 32;

/// A careful draw counts parts up to here, and passes about so many elements at a step.
const COUNTED_MAX: u64 = 128;
const COUNTED_TOGETHER: u64 = 4096;

/// How parts are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    Quick,
    Careful,
}

/// The elements from the first to the last one.
struct Part {
    first: Vec<u8>,
    last: Vec<u8>,
    /// How likely it was to come here.
    chance: f64,
    /// About how many elements it has.
    size: f64,
}

/// The first elements of a part, counted.
struct Bucket {
    first: Vec<u8>,
    size: u64,
    /// How many elements there would be if all were as likely as these.
    weight: f64,
}

/// The first element of a bucket, and how many elements behind it the one that was drawn is.
pub(super) fn draw(ctx: &mut Context<'_>, elements: &Elements<'_>) -> Result<(Vec<u8>, u64), ReadError> {
    let limit = SURPLUS * elements.total as f64;
    let (mut kept, mut weights) = (None, 0.0);
    for draw in 0..DRAWS_MAX {
        let care = if draw < QUICK_DRAWS { Care::Quick } else { Care::Careful };
        let bucket = elements.bucket(ctx, care)?;
        let weight = bucket.weight;
        weights += weight;
        let is_accepted = weight >= limit * fraction(ctx);
        // If none is accepted, one of them all is taken, in proportion to their weights.
        if is_accepted || weight >= weights * fraction(ctx) {
            kept = Some(bucket);
        }
        if is_accepted {
            break;
        }
    }
    let bucket = kept.ok_or_else(miscounted)?;
    Ok((bucket.first, ctx.random_below(bucket.size.max(1))))
}

/// A random number from 0 on and below 1.
fn fraction(ctx: &mut Context<'_>) -> f64 {
    (ctx.random() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The elements of a collection that begin with a prefix.
pub(super) struct Elements<'a> {
    pub(super) collection: &'a Collection,
    pub(super) prefix: &'a [u8],
    /// How many they are.
    pub(super) total: u64,
}

impl Elements<'_> {
    fn bucket(&self, ctx: &mut Context<'_>, care: Care) -> Result<Bucket, ReadError> {
        let upper = behind(self.prefix);
        let all = Bounds { lower: self.prefix, upper: upper.as_deref() };
        let (first, last) = (self.end(ctx, all, false)?, self.end(ctx, all, true)?);
        let mut part = Part { first, last, chance: 1.0, size: self.total as f64 };
        for _ in 0..STEPS_MAX {
            if part.size <= BUCKET as f64 || part.first == part.last {
                let (bucket, is_whole) = self.counted(ctx, &part)?;
                if is_whole {
                    return Ok(bucket);
                }
                part.size = 2.0 * bucket.size as f64;
            }
            part = self.divided(ctx, &part, care)?;
        }
        Ok(self.counted(ctx, &part)?.0)
    }

    /// The first elements of a part, and whether there are no more.
    fn counted(&self, ctx: &Context<'_>, part: &Part) -> Result<(Bucket, bool), ReadError> {
        let behind = [part.last.as_slice(), &[0]].concat();
        let most = 4 * BUCKET;
        let size = self.count(ctx, Bounds { lower: &part.first, upper: Some(&behind) }, most)?;
        let weight = size as f64 / part.chance;
        Ok((Bucket { first: part.first.clone(), size, weight }, size < most))
    }

    /// Divides `part`, whose elements differ, by the first byte in which they do, and takes one of its parts.
    fn divided(&self, ctx: &mut Context<'_>, part: &Part, care: Care) -> Result<Part, ReadError> {
        let len = part.first.iter().zip(&part.last).take_while(|(one, other)| one == other).count();
        let stem = part.first.get(..len).unwrap_or(&[]);
        // The stem itself may be an element. Then it is a part of its own.
        let has_stem = part.first.len() == len;
        if has_stem && fraction(ctx) * part.size < 1.0 {
            let stem = stem.to_vec();
            return Ok(Part { first: stem.clone(), last: stem, chance: part.chance / part.size, size: 1.0 });
        }
        let rest = if has_stem { part.size - 1.0 } else { part.size };
        let chance = part.chance * rest / part.size;

        let first = if has_stem { self.from(ctx, stem, 0)? } else { part.first.clone() };
        let fork = Fork { stem, low: byte_behind(stem, &first), high: byte_behind(stem, &part.last) };
        let taken = match self.parts(ctx, &fork, first, &part.last, care)? {
            Some(parts) => by_size(ctx, parts, rest),
            None => self.by_byte(ctx, &fork, rest)?,
        };
        let byte = byte_behind(stem, &taken.first);
        let last = if byte >= fork.high { part.last.clone() } else { self.below(ctx, stem, byte + 1)? };
        Ok(Part { first: taken.first, last, chance: chance * taken.chance, size: taken.size })
    }

    /// The parts, the last element of which is `last`. `None` if they are too many to look for them, or nearly as many as
    /// they could be.
    fn parts(
        &self,
        ctx: &Context<'_>,
        fork: &Fork<'_>,
        mut first: Vec<u8>,
        last: &[u8],
        care: Care,
    ) -> Result<Option<Vec<Counted>>, ReadError> {
        let is_quick = care == Care::Quick;
        if is_quick && fork.width() <= DENSE {
            return Ok(None);
        }
        let counted_max = (COUNTED_TOGETHER / fork.width()).min(COUNTED_MAX);
        let mut parts = Vec::new();
        while !is_quick || parts.len() < QUICK_PARTS_MAX {
            let byte = byte_behind(fork.stem, &first);
            let is_last = byte >= fork.high;
            let behind = if is_last { [last, &[0]].concat() } else { [fork.stem, &[byte + 1]].concat() };
            let mut size = None;
            if !is_quick {
                let bounds = Bounds { lower: &first, upper: Some(&behind) };
                size = Some(self.count(ctx, bounds, counted_max)?).filter(|size| *size < counted_max);
            }
            parts.push(Counted { first, size });
            if is_last {
                return Ok(Some(parts));
            }
            first = self.end(ctx, Bounds { lower: &behind, upper: None }, false)?;
        }
        Ok(None)
    }

    /// Takes the part that a random byte leads to. A byte that begins none leads to the next one that does.
    fn by_byte(&self, ctx: &mut Context<'_>, fork: &Fork<'_>, size: f64) -> Result<Taken, ReadError> {
        let bytes = fork.width();
        let wish = fork.low.saturating_add(ctx.random_below(bytes) as u8);
        let first = self.from(ctx, fork.stem, wish)?;
        let byte = byte_behind(fork.stem, &first);
        let ways = if byte <= fork.low {
            1
        } else {
            byte - byte_behind(fork.stem, &self.below(ctx, fork.stem, byte)?)
        };
        Ok(Taken { first, chance: f64::from(ways) / bytes as f64, size: size / bytes as f64 })
    }

    /// How many elements are within `bounds`, at most `most`.
    fn count(&self, ctx: &Context<'_>, bounds: Bounds<'_>, most: u64) -> Result<u64, ReadError> {
        let mut count = 0;
        self.collection.walk(ctx.session(), bounds, false, |_, _| {
            count += 1;
            Ok(count < most)
        })?;
        Ok(count)
    }

    /// The first element within `bounds`, or the last one. There is one.
    fn end(&self, ctx: &Context<'_>, bounds: Bounds<'_>, last: bool) -> Result<Vec<u8>, ReadError> {
        let mut found = None;
        self.collection.walk(ctx.session(), bounds, last, |element, _| {
            found = Some(element.to_vec());
            Ok(false)
        })?;
        found.ok_or_else(miscounted)
    }

    /// The first element that is `stem` with this byte behind it, or more.
    fn from(&self, ctx: &Context<'_>, stem: &[u8], byte: u8) -> Result<Vec<u8>, ReadError> {
        let lower = [stem, &[byte]].concat();
        self.end(ctx, Bounds { lower: &lower, upper: None }, false)
    }

    /// The last element that is less than `stem` with this byte behind it.
    fn below(&self, ctx: &Context<'_>, stem: &[u8], byte: u8) -> Result<Vec<u8>, ReadError> {
        let upper = [stem, &[byte]].concat();
        self.end(ctx, Bounds { lower: stem, upper: Some(&upper) }, true)
    }
}

/// Where elements differ: behind what they share, in bytes from the lowest to the highest one.
struct Fork<'a> {
    stem: &'a [u8],
    low: u8,
    high: u8,
}

impl Fork<'_> {
    /// How many bytes there are from the lowest to the highest one.
    fn width(&self) -> u64 {
        u64::from(self.high.saturating_sub(self.low)) + 1
    }
}

/// A part by its first element, and how many elements it has if they were counted.
struct Counted {
    first: Vec<u8>,
    size: Option<u64>,
}

/// A part that was taken, by its first element; the chance of that, and about how many elements it has.
struct Taken {
    first: Vec<u8>,
    chance: f64,
    size: f64,
}

fn byte_behind(stem: &[u8], element: &[u8]) -> u8 {
    element.get(stem.len()).copied().unwrap_or(0)
}

/// Takes one of `parts` in proportion to their sizes, which make about `sum`. Those that are not counted share the rest.
fn by_size(ctx: &mut Context<'_>, parts: Vec<Counted>, sum: f64) -> Taken {
    let counted: u64 = parts.iter().filter_map(|part| part.size).sum();
    let others = parts.iter().filter(|part| part.size.is_none()).count();
    let share = ((sum - counted as f64) / others.max(1) as f64).max(1.0);
    let size_of = |part: &Counted| part.size.map_or(share, |size| size as f64);
    let sum: f64 = parts.iter().map(size_of).sum();
    let mut wish = fraction(ctx) * sum;
    let mut taken = Taken { first: Vec::new(), chance: 1.0, size: sum };
    for part in parts {
        let size = size_of(&part);
        taken = Taken { first: part.first, chance: size / sum, size };
        wish -= size;
        if wish < 0.0 {
            break;
        }
    }
    taken
}
