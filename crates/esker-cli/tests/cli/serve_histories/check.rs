//! Whether a history is linearizable: each operation takes effect at one instant between its call and its reply, and the
//! replies are those of these instants.
//!
//! ```text
//! time -->   [ set a       ]
//!               [ get: a ]        every order in which no operation stands in front of one that ended before its call
//!                   [ pop: x      ]
//! ```
//! The search places one operation after the other and goes back where replies do not fit (Wing and Gong, 1993), and
//! remembers which sets of operations and states it has met (Lowe, 2017). Two observations keep it short:
//!
//! - An operation without effect whose replies fit can be placed at once: nothing depends on its place.
//! - The operation that ends first must have its place before all that are called later. Only operations that have keys in
//!   common with it, or with one another in a chain to it, can matter for that. The others wait.
//!
//! Commands of a pipeline take effect in their order. An operation whose reply was lost may have no effect. It can take
//! effect no later than its server has died.

use std::collections::HashSet;

use super::model::{State, as_served, is_read, keys_of};

/// Something that a client did.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    /// One command, or those of a transaction.
    pub(super) commands: Vec<Vec<String>>,
    /// When it was sent, in nanoseconds.
    pub(super) called: u64,
    /// When its reply was read, or when its server had died.
    pub(super) ended: u64,
    /// `None`: nobody has read the reply.
    pub(super) replies: Option<Vec<String>>,
    /// The number of the pipeline, whose operations stand in order.
    pub(super) pipeline: usize,
}

impl Operation {
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().flat_map(|command| keys_of(command))
    }

    fn is_lost_read(&self) -> bool {
        self.replies.is_none() && self.commands.iter().all(|command| is_read(command))
    }
}

/// What came of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Linearizable,
    Not,
    /// It takes too long to tell.
    Undecided,
}

/// So many places are tried. A history takes some hundred, seldom some ten thousand; without the two observations more.
const TRIES_MAX: usize = 1_000_000;
const THOROUGH_TRIES_MAX: usize = 3_000_000;

/// A place of the search: the state behind the operations that are placed, and what may come next.
struct Place {
    state: State,
    /// Operations, each with whether it has its effect, which a lost one may not have.
    options: Vec<(usize, bool)>,
    /// What was placed last.
    placed: Vec<usize>,
}

struct Search<'a> {
    operations: Vec<&'a Operation>,
    /// Of each operation, the one that stands before it in its pipeline.
    before: Vec<Option<usize>>,
    is_placed: Vec<bool>,
    left: usize,
    seen: HashSet<(Vec<bool>, State)>,
    /// Whether it does without the two observations.
    is_thorough: bool,
}

/// The verdict. What a quick search does not find, a search without shortcuts has the last word on.
pub(super) fn check(operations: &[Operation]) -> Verdict {
    match search(Search::of(operations, false), TRIES_MAX) {
        Verdict::Not => search(Search::of(operations, true), THOROUGH_TRIES_MAX),
        verdict => verdict,
    }
}

fn search(mut search: Search<'_>, tries_max: usize) -> Verdict {
    let mut places = vec![search.place(State::default(), Vec::new())];
    for _ in 0..tries_max {
        if search.left == 0 {
            return Verdict::Linearizable;
        }
        let Some(place) = places.last_mut() else { return Verdict::Not };
        let Some((id, has_effect)) = place.options.pop() else {
            let placed = places.pop().map_or(Vec::new(), |place| place.placed);
            placed.into_iter().for_each(|id| search.take_back(id));
            continue;
        };
        let Some(state) = search.after(&place.state, id, has_effect) else { continue };
        search.put(id);
        let next = search.place(state, vec![id]);
        let met = (search.is_placed.clone(), next.state.clone());
        if search.left == 0 || search.seen.insert(met) {
            places.push(next);
        } else {
            next.placed.into_iter().for_each(|id| search.take_back(id));
        }
    }
    Verdict::Undecided
}

impl<'a> Search<'a> {
    fn of(all: &'a [Operation], is_thorough: bool) -> Search<'a> {
        // Reads whose replies were lost say nothing.
        let mut operations: Vec<&Operation> =
            all.iter().filter(|operation| !operation.is_lost_read()).collect();
        // This keeps the order within pipelines.
        operations.sort_by_key(|operation| operation.called);
        let before =
            |id: usize| (0..id).rev().find(|other| operations[*other].pipeline == operations[id].pipeline);
        let before = (0..operations.len()).map(before).collect();
        let count = operations.len();
        let (is_placed, seen) = (vec![false; count], HashSet::new());
        Search { operations, before, is_placed, left: count, seen, is_thorough }
    }

    fn put(&mut self, id: usize) {
        self.is_placed[id] = true;
        self.left -= 1;
    }

    fn take_back(&mut self, id: usize) {
        self.is_placed[id] = false;
        self.left += 1;
    }

    /// The state after an operation. `None`: its replies are not those of this state.
    fn after(&self, state: &State, id: usize, has_effect: bool) -> Option<State> {
        let mut after = state.clone();
        let operation = self.operations[id];
        // Within a transaction nothing waits.
        let served = match (&operation.commands[..], &operation.replies) {
            ([command], Some(replies)) => Some([as_served(command, &replies[0])]),
            _ => None,
        };
        let commands = served.as_ref().map_or(&operation.commands[..], |served| &served[..]);
        for (place, command) in commands.iter().enumerate().filter(|_| has_effect) {
            let reply = after.apply(command);
            if operation.replies.as_ref().is_some_and(|replies| replies[place] != reply) {
                return None;
            }
        }
        Some(after)
    }

    /// The operation that ends first, and all that may be placed before it.
    fn candidates(&self) -> Option<(usize, Vec<usize>)> {
        let left = (0..self.operations.len()).filter(|id| !self.is_placed[*id]);
        let first = left.clone().min_by_key(|id| self.operations[*id].ended)?;
        let ended = self.operations[first].ended;
        Some((first, left.take_while(|id| self.operations[*id].called <= ended).collect()))
    }

    fn is_next(&self, id: usize) -> bool {
        self.before[id].is_none_or(|before| self.is_placed[before])
    }

    /// Places what has no effect, and finds what may come next.
    fn place(&mut self, state: State, mut placed: Vec<usize>) -> Place {
        loop {
            let Some((first, candidates)) = self.candidates() else {
                return Place { state, options: Vec::new(), placed };
            };
            let idle = candidates
                .iter()
                .copied()
                .filter(|id| self.is_next(*id) && self.operations[*id].replies.is_some());
            let idle: Vec<usize> =
                idle.filter(|id| self.after(&state, *id, true).as_ref() == Some(&state)).collect();
            if idle.is_empty() || self.is_thorough {
                return Place { options: self.options(first, &candidates), state, placed };
            }
            idle.iter().for_each(|id| self.put(*id));
            placed.extend(idle);
        }
    }

    /// What may be placed so that `first` gets its place: the last one is tried first.
    fn options(&self, first: usize, candidates: &[usize]) -> Vec<(usize, bool)> {
        let mut keys: HashSet<&str> = self.operations[first].keys().collect();
        let mut chosen = vec![self.is_thorough; candidates.len()];
        loop {
            let is_new = |place: &usize| {
                let mut own = self.operations[candidates[*place]].keys();
                let before = self.before[first];
                !chosen[*place] && (own.any(|key| keys.contains(key)) || before == Some(candidates[*place]))
            };
            let Some(place) = (0..candidates.len()).find(is_new) else { break };
            chosen[place] = true;
            let id = candidates[place];
            keys.extend(self.operations[id].keys());
            // What stands before it in its pipeline has to come first.
            let mut before = self.before[id];
            while let Some(id) = before.filter(|id| !self.is_placed[*id]) {
                keys.extend(self.operations[id].keys());
                before = self.before[id];
            }
        }
        let chosen = candidates.iter().zip(chosen).filter(|(id, is_chosen)| *is_chosen && self.is_next(**id));
        let mut options: Vec<(usize, bool)> = chosen.map(|(id, _)| (*id, true)).collect();
        // Those that end first are tried first.
        options.sort_by_key(|(id, _)| std::cmp::Reverse(self.operations[*id].ended));
        if self.operations[first].replies.is_none() && self.is_next(first) {
            options.push((first, false));
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(called: u64, ended: u64, command: &str, reply: Option<&str>) -> Operation {
        Operation {
            commands: vec![command.split(' ').map(str::to_owned).collect()],
            called,
            ended,
            replies: reply.map(|reply| vec![reply.to_owned()]),
            pipeline: 0,
        }
    }

    fn verdict(operations: &[(u64, u64, &str, Option<&str>)]) -> Verdict {
        let numbered = operations.iter().enumerate().map(|(pipeline, (called, ended, command, reply))| {
            Operation { pipeline, ..operation(*called, *ended, command, *reply) }
        });
        check(&numbered.collect::<Vec<_>>())
    }

    #[test]
    fn histories_by_hand() {
        let (set, sets) = ((0, 10, "SET s a", Some("+OK")), (5, 25, "SET s b", Some("+OK")));
        // Both orders of two that overlap, but not the value of one that has been overwritten before the read began.
        assert_eq!(verdict(&[set, sets, (30, 40, "GET s", Some("a"))]), Verdict::Linearizable);
        assert_eq!(verdict(&[set, sets, (30, 40, "GET s", Some("b"))]), Verdict::Linearizable);
        let later = (11, 20, "SET s b", Some("+OK"));
        assert_eq!(verdict(&[set, later, (30, 40, "GET s", Some("a"))]), Verdict::Not);
        // Two reads that disagree about the order.
        let reads = [(30, 40, "GET s", Some("a")), (41, 50, "GET s", Some("b"))];
        assert_eq!(verdict(&[set, sets, reads[0], reads[1]]), Verdict::Not);
        // An element goes to one client only.
        let push = (0, 10, "RPUSH l a", Some(":1"));
        let pop = (5, 20, "BLPOP l m 0.1", Some("[l a]"));
        assert_eq!(verdict(&[push, pop]), Verdict::Linearizable);
        assert_eq!(verdict(&[push, pop, (5, 30, "LPOP l", Some("a"))]), Verdict::Not);
        assert_eq!(verdict(&[push, (11, 20, "LPOP l", Some("$-1"))]), Verdict::Not);
    }

    /// One element of two moves on to a key that the second client has named first.
    #[test]
    fn who_waits_for_several_keys_is_served_by_the_one_that_is_written() {
        let push = (10, 20, "RPUSH l a b", Some(":2"));
        let moved = (0, 30, "BLMOVE l m RIGHT LEFT 1", Some("b"));
        let with = |reply| verdict(&[moved, (0, 30, "BRPOP m l 1", Some(reply)), push]);
        assert_eq!(with("[l a]"), Verdict::Linearizable);
        assert_eq!(with("[m b]"), Verdict::Linearizable);
        assert_eq!(with("[l b]"), Verdict::Not);
        assert_eq!(with("[m a]"), Verdict::Not);
    }

    #[test]
    fn what_is_lost_has_happened_or_not_and_not_later() {
        let lost = (0, 20, "INCRBY c 1", None);
        for (count, verdict_of) in
            [("$-1", Verdict::Linearizable), ("1", Verdict::Linearizable), ("2", Verdict::Not)]
        {
            assert_eq!(verdict(&[lost, (30, 40, "GET c", Some(count))]), verdict_of, "{count}");
        }
        let reads = [(30, 40, "GET c", Some("$-1")), (50, 60, "GET c", Some("1"))];
        assert_eq!(verdict(&[lost, reads[0], reads[1]]), Verdict::Not);
        let open = (0, u64::MAX, "INCRBY c 1", None);
        assert_eq!(verdict(&[open, reads[0], reads[1]]), Verdict::Linearizable);
    }
}
