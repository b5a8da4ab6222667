use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Waits until so many wait for memory.
fn until_waiting(memory: &Memory, count: u64) {
    let begun = Instant::now();
    while memory.waiting() != count {
        assert!(begun.elapsed() < MINUTE, "{} wait", memory.waiting());
        test_kit::pause();
    }
}

/// Takes memory for an answer of `len` bytes beyond what does not count.
fn take(share: &Share<'_>, len: usize) -> Outcome<()> {
    share.count(OWN + len)
}

#[test]
fn an_answer_counts_as_much_memory_as_it_has() {
    let memory = Memory::new(10 << 20, 4 << 20, MINUTE);
    let share = Share::new(&memory);
    let mut answer = Vec::new();
    share.make_room(&mut answer, OWN).unwrap();
    assert_eq!(memory.taken(), 0);
    let (mut reserved, mut taken) = (0, 0);
    while answer.len() < 4 << 20 {
        share.make_room(&mut answer, 1000).unwrap();
        answer.extend_from_slice(&[7; 1000]);
        reserved += usize::from(memory.taken() != taken);
        taken = memory.taken();
        assert!(answer.capacity() <= OWN + memory.taken() as usize, "{} bytes", answer.len());
        assert!(answer.capacity() <= (4 << 20) + 1000);
    }
    assert!(reserved < 20, "it was reserved {reserved} times");
    share.give_back(OWN + 100);
    assert_eq!(memory.taken(), 100);
    drop(share);
    assert_eq!(memory.taken(), 0);
}

#[test]
fn elements_count_until_the_call_has_ended() {
    let memory = Memory::new(10 << 20, 4 << 20, MINUTE);
    let share = Share::new(&memory);
    share.count_call(OWN).unwrap();
    assert_eq!(memory.taken(), 0);
    (0..10_000).for_each(|_| share.count_call(ELEMENT_LEN).unwrap());
    let call = (10_000 * ELEMENT_LEN).next_multiple_of(STEP);
    assert_eq!(memory.taken() as usize, call);
    let mut answer = Vec::new();
    share.make_room(&mut answer, 3 << 20).unwrap();
    // Until a large answer is made, it counts as much as an answer may have.
    assert_eq!(memory.taken() as usize, (10_000 * ELEMENT_LEN) + (4 << 20));
    share.end_call(answer.capacity()).unwrap();
    assert_eq!(memory.taken() as usize, (3 << 20) - OWN);
}

#[test]
fn one_exceeds_the_limit_and_others_wait_in_their_order() {
    let memory = Memory::new(100, 100, MINUTE);
    let (first, second) = (Share::new(&memory), Share::new(&memory));
    take(&first, 60).unwrap();
    take(&second, 50).unwrap();
    assert_eq!(memory.taken(), 110);
    // It may have more, and nobody else.
    take(&second, 60).unwrap();
    let order = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..3 {
            scope.spawn({
                let (order, memory) = (&order, &memory);
                move || {
                    let share = Share::new(memory);
                    take(&share, 30).unwrap();
                    assert_eq!(order.fetch_add(1, Ordering::Relaxed), number);
                }
            });
            until_waiting(&memory, number + 1);
        }
        assert_eq!(order.load(Ordering::Relaxed), 0);
        first.give_back(0);
        // There is room for one after the other.
    });
    assert_eq!((order.load(Ordering::Relaxed), memory.taken(), memory.waiting()), (3, 60, 0));
    second.give_back(0);
    take(&first, 200).unwrap();
    assert_eq!(memory.taken(), 200);
}

/// Else each could exceed the limit by what it keeps.
#[test]
fn who_exceeds_the_limit_does_so_until_it_no_longer_does() {
    let memory = Memory::new(100, 100, Duration::ZERO);
    let [first, second, third] = [(); 3].map(|()| Share::new(&memory));
    take(&first, 100).unwrap();
    take(&second, 60).unwrap();
    second.give_back(OWN + 50);
    assert!(take(&third, 50).is_err());
    first.give_back(OWN + 50);
    assert_eq!(memory.taken(), 100);
    second.give_back(OWN + 40);
    take(&third, 50).unwrap();
    assert_eq!(memory.taken(), 140);
}

/// Also if it gives back nothing: then others have done that.
#[test]
fn who_exceeded_the_limit_is_known_no_longer_to_do_so() {
    let memory = Memory::new(100, 100, Duration::ZERO);
    let [first, second, third] = [(); 3].map(|()| Share::new(&memory));
    take(&first, 100).unwrap();
    take(&second, 50).unwrap();
    first.give_back(0);
    assert!(take(&third, 100).is_err());
    second.give_back(OWN + 50);
    take(&third, 100).unwrap();
}

#[test]
fn nobody_waits_for_a_server_that_ends() {
    let memory = Memory::new(100, 100, MINUTE);
    let [first, second, third] = [(); 3].map(|()| Share::new(&memory));
    take(&first, 100).unwrap();
    take(&second, 100).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || take(&third, 1));
        until_waiting(&memory, 1);
        memory.end();
        assert!(waits.join().unwrap().is_err());
    });
}

#[test]
fn waiting_ends() {
    let memory = Memory::new(100, 100, Duration::from_millis(50));
    let [first, second, third] = [(); 3].map(|()| Share::new(&memory));
    take(&first, 100).unwrap();
    take(&second, 100).unwrap();
    let begun = Instant::now();
    let error = take(&third, 1).unwrap_err();
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(error.message.contains("too much memory now"), "{error:?}");
    assert_eq!((memory.waiting(), memory.taken()), (0, 200));
    first.give_back(0);
    second.give_back(0);
    take(&third, 1).unwrap();
}

#[test]
fn a_slow_client_is_too_slow_only_while_others_wait() {
    let memory = Memory::new(100, 100, Duration::from_secs(4));
    let [first, second, third] = [(); 3].map(|()| Share::new(&memory));
    take(&first, 100).unwrap();
    take(&second, 50).unwrap();
    first.begin_sending();
    second.begin_sending();
    // It has taken what it must within some hours.
    second.sent(1 << 36);
    while first.begun.get().elapsed() < memory.grace + Duration::from_millis(1) {
        test_kit::pause();
    }
    assert!(!first.is_too_slow());
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || take(&third, 1));
        until_waiting(&memory, 1);
        assert!(first.is_too_slow());
        assert!(!second.is_too_slow());
        drop(first);
        waits.join().unwrap().unwrap();
    });
    assert!(!second.is_too_slow());
}

#[test]
fn who_needs_little_does_not_wait_for_those_that_need_much() {
    let memory = Memory::new(40 << 20, 20 << 20, MINUTE);
    let [first, second, third, fourth] = [(); 4].map(|()| Share::new(&memory));
    take(&first, 30 << 20).unwrap();
    take(&second, 3 << 20).unwrap();
    // One exceeds what there is for many, and there is more for one that needs little.
    assert!(second.exceeds.get());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let share = third;
            take(&share, 3 << 20).unwrap();
        });
        until_waiting(&memory, 1);
        take(&fourth, LARGE).unwrap();
        assert_eq!(memory.waiting(), 1);
        drop(first);
    });
    assert_eq!(memory.taken(), 5 << 20);
}

/// Whatever each takes, and in which parts: all get it, and never much more than the limit is taken.
#[test]
fn many_answers_get_through() {
    let seed = test_kit::seed(1);
    // In the second form, most are large.
    many_get_through(1, seed);
    many_get_through(LARGE / 100, seed);
}

fn many_get_through(unit: usize, seed: u64) {
    let memory = Memory::new(1000 * unit, 400 * unit, MINUTE);
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let (memory, most) = (&memory, &most);
            scope.spawn(move || {
                let mut rng = test_kit::Rng::new(seed * 100 + thread);
                let mut random = move |below: usize| rng.index(below);
                let share = Share::new(memory);
                for _ in 0..300 {
                    let (mut len, end) = (0, 1 + random(400));
                    while len < end {
                        len = end.min(len + 1 + random(200));
                        take(&share, len * unit).unwrap();
                        most.fetch_max(memory.taken(), Ordering::Relaxed);
                        if random(8) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    share.give_back(if random(4) == 0 { OWN + random(20) * unit } else { 0 });
                }
            });
        }
    });
    assert_eq!((memory.taken(), memory.waiting()), (0, 0));
    // Each keeps 20 bytes at most, which is as if it had been admitted beyond the limit.
    let most = most.load(Ordering::Relaxed) as usize / unit;
    assert!(memory.waited() > 100, "{} times", memory.waited());
    assert!((700..=1000 + 400 + 16 * 20).contains(&most), "{most} bytes");
}
