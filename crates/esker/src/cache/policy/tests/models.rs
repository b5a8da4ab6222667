//! The policies as their papers describe them, over plain vectors with the front first.

use crate::options::CachePolicy;

/// Like [`super::Policy`], but by hash.
pub(super) trait Model {
    fn arriving(&mut self, _hash: u64) {}
    fn inserted(&mut self, hash: u64);
    fn hit(&mut self, hash: u64);
    fn removed(&mut self, hash: u64);
    fn evict(&mut self) -> Option<u64>;
    fn ghosts(&self) -> Vec<u64> {
        vec![]
    }
}

pub(super) fn of(policy: CachePolicy) -> Option<Box<dyn Model>> {
    Some(match policy {
        CachePolicy::None => return None,
        CachePolicy::Fifo => Box::new(Queue { pages: vec![], on_hit: |_, _| {} }),
        CachePolicy::Lru => Box::new(Queue { pages: vec![], on_hit: to_front }),
        CachePolicy::TwoQ => Box::new(TwoQ::default()),
        CachePolicy::Arc => Box::new(Arc::default()),
        CachePolicy::Clock => Box::new(SecondChance::default()),
        CachePolicy::S3Fifo => Box::new(S3Fifo::default()),
    })
}

fn take(list: &mut Vec<u64>, hash: u64) -> bool {
    let before = list.len();
    list.retain(|&other| other != hash);
    list.len() < before
}

fn to_front(list: &mut Vec<u64>, hash: u64) {
    take(list, hash);
    list.insert(0, hash);
}

/// FIFO and LRU.
struct Queue {
    pages: Vec<u64>,
    on_hit: fn(&mut Vec<u64>, u64),
}

impl Model for Queue {
    fn inserted(&mut self, hash: u64) {
        self.pages.insert(0, hash);
    }
    fn hit(&mut self, hash: u64) {
        (self.on_hit)(&mut self.pages, hash);
    }
    fn removed(&mut self, hash: u64) {
        take(&mut self.pages, hash);
    }
    fn evict(&mut self) -> Option<u64> {
        self.pages.pop()
    }
}

/// Clock while every slot is taken.
#[derive(Default)]
struct SecondChance {
    pages: Vec<(u64, bool)>,
}

impl Model for SecondChance {
    fn inserted(&mut self, hash: u64) {
        self.pages.insert(0, (hash, false));
    }
    fn hit(&mut self, hash: u64) {
        self.pages.iter_mut().filter(|page| page.0 == hash).for_each(|page| page.1 = true);
    }
    fn removed(&mut self, hash: u64) {
        self.pages.retain(|page| page.0 != hash);
    }
    fn evict(&mut self) -> Option<u64> {
        loop {
            match self.pages.pop()? {
                (hash, false) => return Some(hash),
                (hash, true) => self.pages.insert(0, (hash, false)),
            }
        }
    }
}

/// "2Q, full version"; `c` is the paper's number of page slots.
#[derive(Default)]
struct TwoQ {
    a1in: Vec<u64>,
    a1out: Vec<u64>,
    am: Vec<u64>,
    was_in_a1out: bool,
}

impl Model for TwoQ {
    fn arriving(&mut self, hash: u64) {
        self.was_in_a1out = take(&mut self.a1out, hash);
    }
    fn inserted(&mut self, hash: u64) {
        let list = if self.was_in_a1out { &mut self.am } else { &mut self.a1in };
        list.insert(0, hash);
    }
    fn hit(&mut self, hash: u64) {
        if self.am.contains(&hash) {
            to_front(&mut self.am, hash);
        }
    }
    fn removed(&mut self, hash: u64) {
        take(&mut self.a1in, hash);
        take(&mut self.am, hash);
        self.a1out.truncate((self.a1in.len() + self.am.len()) / 2);
    }
    fn evict(&mut self) -> Option<u64> {
        let c = self.a1in.len() + self.am.len();
        let (kin, kout) = (c / 4, c / 2);
        if self.a1in.len() > kin {
            let y = self.a1in.pop()?;
            self.a1out.insert(0, y);
            self.a1out.truncate(kout);
            return Some(y);
        }
        self.a1out.truncate(kout);
        self.am.pop()
    }
    fn ghosts(&self) -> Vec<u64> {
        self.a1out.clone()
    }
}

/// Figure 4 of the paper; `c` is the cache size. The case of x was decided on arrival.
#[derive(Default)]
struct Arc {
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
    p: usize,
    x: Option<u8>,
    c: usize,
}

impl Arc {
    fn replace(&mut self) -> Option<u64> {
        let t1 = self.t1.len();
        if t1 >= 1 && (t1 > self.p || (self.x == Some(2) && t1 == self.p)) || self.t2.is_empty() {
            let y = self.t1.pop()?;
            self.b1.insert(0, y);
            return Some(y);
        }
        let y = self.t2.pop()?;
        self.b2.insert(0, y);
        Some(y)
    }

    fn keep_bounds(&mut self) {
        self.b1.truncate(self.c.saturating_sub(self.t1.len()));
        self.b2.truncate(self.c - self.b1.len());
        self.p = self.p.min(self.c);
    }
}

impl Model for Arc {
    fn arriving(&mut self, hash: u64) {
        let (b1, b2) = (self.b1.len(), self.b2.len());
        self.x = None;
        if take(&mut self.b1, hash) {
            let delta = if b1 >= b2 { 1 } else { b2 / b1 };
            self.p = (self.p + delta).min(self.c);
            self.x = Some(1);
        }
        if take(&mut self.b2, hash) {
            let delta = if b2 >= b1 { 1 } else { b1 / b2 };
            self.p = self.p.saturating_sub(delta);
            self.x = Some(2);
        }
    }
    fn inserted(&mut self, hash: u64) {
        let list = if self.x.is_some() { &mut self.t2 } else { &mut self.t1 };
        list.insert(0, hash);
        self.x = None;
        self.c = self.c.max(self.t1.len() + self.t2.len());
    }
    fn hit(&mut self, hash: u64) {
        take(&mut self.t1, hash);
        to_front(&mut self.t2, hash);
    }
    fn removed(&mut self, hash: u64) {
        take(&mut self.t1, hash);
        take(&mut self.t2, hash);
        self.c = self.t1.len() + self.t2.len();
        self.keep_bounds();
    }
    fn evict(&mut self) -> Option<u64> {
        let (t1, b1) = (self.t1.len(), self.b1.len());
        self.c = t1 + self.t2.len();
        if self.x.is_none() {
            if t1 == self.c {
                self.keep_bounds();
                return self.t1.pop();
            }
            if t1 + b1 >= self.c {
                self.b1.pop();
            } else if t1 + self.t2.len() + b1 + self.b2.len() >= 2 * self.c {
                self.b2.pop();
            }
        }
        let victim = self.replace();
        self.keep_bounds();
        victim
    }
    fn ghosts(&self) -> Vec<u64> {
        [&self.b1[..], &self.b2].concat()
    }
}

/// Algorithm 1 of the paper, evicting one page at a time.
#[derive(Default)]
struct S3Fifo {
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghosts: Vec<u64>,
    was_ghost: bool,
}

impl S3Fifo {
    fn cache_size(&self) -> usize {
        self.small.len() + self.main.len()
    }
}

impl Model for S3Fifo {
    fn arriving(&mut self, hash: u64) {
        self.was_ghost = take(&mut self.ghosts, hash);
    }
    fn inserted(&mut self, hash: u64) {
        let list = if self.was_ghost { &mut self.main } else { &mut self.small };
        list.insert(0, (hash, 0));
    }
    fn hit(&mut self, hash: u64) {
        let pages = self.small.iter_mut().chain(&mut self.main);
        pages.filter(|page| page.0 == hash).for_each(|page| page.1 = (page.1 + 1).min(3));
    }
    fn removed(&mut self, hash: u64) {
        self.small.retain(|page| page.0 != hash);
        self.main.retain(|page| page.0 != hash);
        let c = self.cache_size();
        self.ghosts.truncate(c.saturating_sub((c / 10).max(1)));
    }
    fn evict(&mut self) -> Option<u64> {
        let c = self.cache_size();
        let tenth = (c / 10).max(1);
        loop {
            if self.small.len() >= tenth || self.main.is_empty() {
                match self.small.pop()? {
                    (t, 2..) => self.main.insert(0, (t, 0)),
                    (t, _) => {
                        self.ghosts.insert(0, t);
                        self.ghosts.truncate(c - tenth);
                        return Some(t);
                    }
                }
            } else {
                match self.main.pop()? {
                    (t, 0) => {
                        self.ghosts.truncate(c - tenth);
                        return Some(t);
                    }
                    (t, count) => self.main.insert(0, (t, count - 1)),
                }
            }
        }
    }
    fn ghosts(&self) -> Vec<u64> {
        self.ghosts.clone()
    }
}
