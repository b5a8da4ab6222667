use std::collections::HashMap;

use super::*;
use crate::rng::Rng;

fn id(table: u64, number: usize) -> PageId {
    PageId::new(table, number).expect("small numbers")
}

fn page(len: usize, fill: u8) -> Page {
    vec![fill; len].into()
}

#[test]
fn what_is_found_is_what_was_inserted_and_the_limit_holds() {
    check_history(256 * 1024);
    check_history(0);
}

fn check_history(capacity: usize) {
    let seed = 0x5eed_0001_u64;
    println!("{capacity} bytes, seed {seed:#x}");
    let mut rng = Rng::new(seed);
    let pool = BufferPool::new(capacity);
    let mut inserted = HashMap::new();
    let mut limit = capacity;
    for step in 0..200_000_u64 {
        let (table, number) = (rng.next() % 5, rng.next() as usize % 400);
        let id = id(table, number);
        match rng.next() % 1000 {
            0 => {
                pool.remove_table(table);
                inserted.retain(|other: &PageId, _| other.table() != table);
                assert!((0..400).all(|number| pool.get(self::id(table, number)).is_none()));
            }
            2 => {
                pool.clear();
                inserted.clear();
                assert_eq!(pool.used(), 0);
            }
            1 => {
                let reserved = rng.index(capacity);
                pool.set_reserved(reserved);
                limit = capacity - reserved;
            }
            3..=500 => {
                if pool.get(id).is_none() {
                    let new = page(rng.next() as usize % 3000, step as u8);
                    if step % 3 == 0 {
                        pool.insert_if_room(id, &new);
                    } else {
                        pool.insert(id, &new);
                    }
                    inserted.insert(id, new);
                }
            }
            _ => {
                if let Some(found) = pool.get(id) {
                    assert!(Arc::ptr_eq(&found, &inserted[&id]), "step {step}");
                }
            }
        }
        assert!(pool.used() <= limit, "step {step}");
    }
    let (hits, misses) = pool.hits_and_misses();
    assert!(misses > 1000, "{hits} {misses}");
    assert_eq!(hits > 1000, capacity > 0, "{hits} {misses}");
    pool.set_reserved(capacity);
    assert_eq!(pool.used(), 0);
}

#[test]
fn pages_stay_while_there_is_room() {
    let pool = BufferPool::new(1 << 20);
    for number in 0..100 {
        pool.insert(id(7, number), &page(1000, number as u8));
    }
    for number in 0..100 {
        let found = pool.get(id(7, number)).expect("there is room for all");
        assert_eq!(found[0], number as u8);
    }
    assert_eq!(pool.used(), 100 * (1000 + PAGE_OVERHEAD));
    assert!(pool.used() < pool.capacity());
}

#[test]
fn a_scan_evicts_nothing() {
    let pool = BufferPool::new(64 * 1024);
    for number in 0..10_000 {
        pool.insert(id(1, number), &page(100, 1));
    }
    let here = |table| (0..10_000).filter(|&number| pool.get(id(table, number)).is_some()).count();
    let before = here(1);
    assert!(before > 100);
    for number in 0..10_000 {
        pool.insert_if_room(id(2, number), &page(100, 2));
    }
    assert_eq!(here(1), before);
    assert_eq!(here(2), 0);
}

#[test]
fn a_page_larger_than_its_shard_is_not_kept() {
    let pool = BufferPool::new(64 * 1024);
    let id = id(1, 0);
    pool.insert(id, &page(60_000, 0));
    assert!(pool.get(id).is_none());
    assert_eq!(pool.used(), 0);
}

#[test]
fn ids_are_one_to_one() {
    for table in [0, 1, 2, 77, 1 << 20, (1 << 36) - 1] {
        for number in [0, 1, 2, 1000, (1 << 28) - 1] {
            assert_eq!(id(table, number).table(), table);
        }
    }
    assert_eq!([PageId::new(1 << 36, 0), PageId::new(0, 1 << 28)], [None, None]);
}
