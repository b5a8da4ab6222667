use super::*;
use crate::error::ErrorKind;
use crate::rng::Rng;
use std::cmp::Ordering;

/// Random values for these tests.
trait Draw {
    fn bytes(&mut self) -> Vec<u8>;
    fn text(&mut self) -> String;
}

impl Draw for Rng {
    /// Bytes that collide, contain zeros and 0xff, and are often prefixes of each other.
    fn bytes(&mut self) -> Vec<u8> {
        let len = self.next() % 6;
        (0..len).map(|_| [0, 0, 1, b'a', b'b', 0xfe, 0xff][(self.next() % 7) as usize]).collect()
    }

    fn text(&mut self) -> String {
        let len = self.next() % 6;
        (0..len)
            .map(|_| ['\0', '\u{1}', 'a', 'b', 'ÿ', '€', '\u{10ffff}'][(self.next() % 7) as usize])
            .collect()
    }
}

const SEED: u64 = 0x6573_6b65_7201;

/// Every bit length and its neighbours, plus random values of every magnitude.
fn interesting_u64() -> Vec<u64> {
    let mut rng = Rng::new(SEED);
    let mut values = vec![0, u64::MAX];
    for shift in (0..64).step_by(if cfg!(miri) { 13 } else { 1 }) {
        let power = 1u64 << shift;
        values.extend([power, power - 1, power + 1, !power, rng.next() >> shift]);
    }
    values
}

fn assert_same_order<T: Copy + std::fmt::Debug, K: AsRef<[u8]>>(
    values: &[T],
    key: impl Fn(T) -> K,
    order: impl Fn(&T, &T) -> Ordering,
) {
    for a in values {
        for b in values {
            let (left, right) = (key(*a), key(*b));
            assert_eq!(left.as_ref().cmp(right.as_ref()), order(a, b), "{a:?} and {b:?}");
        }
    }
}

#[test]
fn unsigned_keys_sort_as_numbers_and_come_back() {
    let values = interesting_u64();
    assert_same_order(&values, u64, Ord::cmp);
    let small: Vec<u32> = values.iter().map(|&v| v as u32).collect();
    assert_same_order(&small, u32, Ord::cmp);
    for v in values {
        assert_eq!(decode_u64(&u64(v)).unwrap(), v);
        assert_eq!(decode_u32(&u32(v as u32)).unwrap(), v as u32);
    }
}

#[test]
fn signed_keys_sort_as_numbers_and_come_back() {
    let values: Vec<i64> = interesting_u64().into_iter().map(u64::cast_signed).collect();
    assert_same_order(&values, i64, Ord::cmp);
    let small: Vec<i32> = values.iter().map(|&v| v as i32).collect();
    assert_same_order(&small, i32, Ord::cmp);
    for v in values {
        assert_eq!(decode_i64(&i64(v)).unwrap(), v);
        assert_eq!(decode_i32(&i32(v as i32)).unwrap(), v as i32);
    }
}

/// The top 16 bits carry the sign of a 32-bit number. Tests neighbours over the whole range.
#[test]
fn all_32_bit_steps_of_a_64k_stride_ascend() {
    let mut last: Option<([u8; 4], [u8; 4])> = None;
    for step in (0..=u16::MAX).step_by(if cfg!(miri) { 997 } else { 1 }) {
        let unsigned = u32::from(step) << 16 | u32::from(step);
        let signed = (unsigned ^ (1 << 31)).cast_signed();
        if let Some((a, b)) = last {
            assert!(a < u32(unsigned) && b < i32(signed), "at {step}");
        }
        last = Some((u32(unsigned), i32(signed)));
    }
}

fn interesting_f64() -> Vec<f64> {
    let mut values =
        vec![f64::NEG_INFINITY, f64::INFINITY, f64::MIN, f64::MAX, f64::MIN_POSITIVE, f64::EPSILON];
    for bits in interesting_u64() {
        let value = f64::from_bits(bits);
        values.extend([value, -value, bits as f64, -(bits as f64)]);
    }
    values
}

#[test]
fn float_keys_sort_as_numbers_with_nan_last() {
    let order = |a: &f64, b: &f64| match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (nan, other) if nan != other => nan.cmp(&other),
        _ => a.total_cmp(b),
    };
    assert_same_order(&interesting_f64(), f64, order);
    for v in interesting_f64() {
        let back = decode_f64(&f64(v)).unwrap();
        assert!(back.to_bits() == v.to_bits() || (back.is_nan() && v.is_nan()), "{v:?}");
    }
}

#[test]
fn wrong_lengths_and_foreign_nans_are_refused() {
    for len in (0..20).filter(|&len| len != 8) {
        let key = vec![0; len];
        for error in [decode_u64(&key).err(), decode_i64(&key).err(), decode_f64(&key).err()] {
            assert_eq!(error.unwrap().kind(), ErrorKind::InvalidInput, "{len} bytes");
        }
    }
    for len in (0..20).filter(|&len| len != 4) {
        let key = vec![0; len];
        for error in [decode_u32(&key).err(), decode_i32(&key).err()] {
            assert_eq!(error.unwrap().kind(), ErrorKind::InvalidInput, "{len} bytes");
        }
    }
    assert!(decode_f64(&[0xff; 8]).is_err(), "a NaN with a payload");
    assert!(decode_f64(&[0; 8]).is_err(), "a negative NaN");
    assert!(decode_text(&[b'a', 0xc3]).is_err());
}

#[test]
fn tuples_sort_element_by_element() {
    println!("seed {SEED:#x}");
    let mut rng = Rng::new(SEED);
    let mut rows: Vec<(Vec<u8>, String, i64, Vec<u8>)> = (0..if cfg!(miri) { 30 } else { 600 })
        .map(|_| (rng.bytes(), rng.text(), (rng.next() % 5).cast_signed() - 2, rng.bytes()))
        .collect();
    rows.push((vec![b'a'], "b".into(), 0, vec![]));
    rows.push((vec![b'a', 0], String::new(), 0, vec![]));
    for a in &rows {
        for b in &rows {
            assert_eq!(tuple(a).cmp(&tuple(b)), a.cmp(b), "{a:?} and {b:?}");
        }
        let back: (Vec<u8>, String, i64, Vec<u8>) = decode_tuple(&tuple(a)).unwrap();
        assert_eq!(&back, a);
    }
}

#[test]
fn the_key_of_the_first_elements_is_a_prefix_of_just_their_rows() {
    let mut rng = Rng::new(SEED + 1);
    let rows: Vec<(Vec<u8>, u32)> =
        (0..if cfg!(miri) { 30 } else { 400 }).map(|_| (rng.bytes(), rng.next() as u32)).collect();
    for (first, _) in &rows {
        let prefix = tuple(&(first,));
        for row in &rows {
            assert_eq!(tuple(row).starts_with(&prefix), &row.0 == first, "{first:?} and {row:?}");
        }
    }
}

#[test]
fn every_element_type_comes_back() {
    let row = (1u64, -2i64, 3u32, -4i32, -0.5f64, "fünf\0", [0u8, 255], vec![0u8]);
    let key = tuple(&row);
    type Row = (u64, i64, u32, i32, f64, String, Vec<u8>, Vec<u8>);
    let back: Row = decode_tuple(&key).unwrap();
    assert_eq!(back, (1, -2, 3, -4, -0.5, "fünf\0".to_owned(), vec![0, 255], vec![0]));
    for cut in 0..key.len() {
        let error = decode_tuple::<Row>(&key[..cut]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "cut at {cut}");
    }
    let mut longer = key.clone();
    longer.push(0);
    assert!(decode_tuple::<Row>(&longer).is_err(), "a byte too many");
}

/// Bytes that decode encode to the same bytes again: no value has two keys.
#[test]
fn arbitrary_bytes_decode_to_one_form_or_an_error() {
    println!("seed {SEED:#x}");
    let mut rng = Rng::new(SEED + 2);
    for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
        let key: Vec<u8> = [rng.bytes(), rng.bytes(), rng.bytes()].concat();
        if let Ok(row) = decode_tuple::<(Vec<u8>, u32)>(&key) {
            assert_eq!(tuple(&row), key);
        }
        if let Ok(row) = decode_tuple::<(f64, String)>(&key) {
            assert_eq!(tuple(&row), key);
        }
    }
}
