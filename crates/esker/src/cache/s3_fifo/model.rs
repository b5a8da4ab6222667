//! S3-FIFO as its paper describes it, by hash, over plain vectors with the front first.

fn take(list: &mut Vec<u64>, hash: u64) -> bool {
    let before = list.len();
    list.retain(|&other| other != hash);
    list.len() < before
}

/// Algorithm 1 of the paper, evicting one page at a time.
#[derive(Default)]
pub(super) struct Model {
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghosts: Vec<u64>,
    was_ghost: bool,
}

impl Model {
    fn cache_size(&self) -> usize {
        self.small.len() + self.main.len()
    }

    pub(super) fn arriving(&mut self, hash: u64) {
        self.was_ghost = take(&mut self.ghosts, hash);
    }

    pub(super) fn inserted(&mut self, hash: u64) {
        let list = if self.was_ghost { &mut self.main } else { &mut self.small };
        list.insert(0, (hash, 0));
    }

    pub(super) fn hit(&mut self, hash: u64) {
        let pages = self.small.iter_mut().chain(&mut self.main);
        pages.filter(|page| page.0 == hash).for_each(|page| page.1 = (page.1 + 1).min(3));
    }

    pub(super) fn removed(&mut self, hash: u64) {
        self.small.retain(|page| page.0 != hash);
        self.main.retain(|page| page.0 != hash);
        let c = self.cache_size();
        self.ghosts.truncate(c.saturating_sub((c / 10).max(1)));
    }

    pub(super) fn evict(&mut self) -> Option<u64> {
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

    pub(super) fn ghosts(&self) -> Vec<u64> {
        self.ghosts.clone()
    }
}
