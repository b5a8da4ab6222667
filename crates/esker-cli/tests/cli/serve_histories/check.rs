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
//! - An operation whose replies fit, and tell that it has changed nothing, can be placed at once: nothing depends on its
//!   place.
//! - The operation that ends first must have its place before all that are called later. Only operations that have keys in
//!   common with it, or with one another in a chain to it, can matter for that. The others wait.
//!
//! Commands of a pipeline take effect in their order. An operation whose reply was lost may have no effect. It can take
//! effect no later than its server has died.

use std::collections::HashSet;

use super::model::{State, as_served, has_changed_nothing, is_read, keys_of};

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

    /// Its commands in the ways in which they may have been served: one way, unless nobody knows which of several keys a
    /// client that waited has got an element of. Within a transaction nothing waits.
    fn ways(&self) -> Vec<Vec<Vec<String>>> {
        let [command] = &self.commands[..] else { return vec![self.commands.clone()] };
        let reply = self.replies.as_ref().map(|replies| replies[0].as_str());
        as_served(command, reply).into_iter().map(|command| vec![command]).collect()
    }

    /// Whether its replies tell that it has changed nothing.
    fn is_idle(&self) -> bool {
        let mut told = self.replies.iter().flatten().zip(&self.commands);
        self.replies.is_some() && told.all(|(reply, command)| has_changed_nothing(command, reply))
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
    /// Operations, each with the way in which it has its effect. `None`: it is lost, and has none.
    options: Vec<(usize, Option<usize>)>,
    /// What was placed last.
    placed: Vec<usize>,
}

struct Search<'a> {
    operations: Vec<&'a Operation>,
    /// Of each, [`Operation::ways`].
    ways: Vec<Vec<Vec<Vec<String>>>>,
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
    let quick = search(Search::of(operations, false), TRIES_MAX);
    if quick != Verdict::Not {
        return quick;
    }
    let verdict = search(Search::of(operations, true), THOROUGH_TRIES_MAX);
    assert_ne!(verdict, Verdict::Linearizable, "the quick search has missed an order: {operations:#?}");
    verdict
}

fn search(mut search: Search<'_>, tries_max: usize) -> Verdict {
    let mut places = vec![search.place(State::default(), Vec::new())];
    for _ in 0..tries_max {
        if search.left == 0 {
            return Verdict::Linearizable;
        }
        let Some(place) = places.last_mut() else { return Verdict::Not };
        let Some((id, way)) = place.options.pop() else {
            let placed = places.pop().map_or(Vec::new(), |place| place.placed);
            placed.into_iter().for_each(|id| search.take_back(id));
            continue;
        };
        let Some(state) = search.after(&place.state, id, way) else { continue };
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
        let ways = operations.iter().map(|operation| operation.ways()).collect();
        let count = operations.len();
        let (is_placed, seen) = (vec![false; count], HashSet::new());
        Search { operations, ways, before, is_placed, left: count, seen, is_thorough }
    }

    fn put(&mut self, id: usize) {
        self.is_placed[id] = true;
        self.left -= 1;
    }

    fn take_back(&mut self, id: usize) {
        self.is_placed[id] = false;
        self.left += 1;
    }

    /// The state after an operation that has had its effect in this way. `None`: its replies are not those of this state.
    fn after(&self, state: &State, id: usize, way: Option<usize>) -> Option<State> {
        let mut after = state.clone();
        let operation = self.operations[id];
        for (place, command) in way.into_iter().flat_map(|way| &self.ways[id][way]).enumerate() {
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

    /// Places what has changed nothing, and finds what may come next.
    fn place(&mut self, state: State, mut placed: Vec<usize>) -> Place {
        loop {
            let Some((first, candidates)) = self.candidates() else {
                return Place { state, options: Vec::new(), placed };
            };
            let idle =
                candidates.iter().copied().filter(|id| self.is_next(*id) && self.operations[*id].is_idle());
            let idle: Vec<usize> = idle.filter(|id| self.after(&state, *id, Some(0)).is_some()).collect();
            if idle.is_empty() || self.is_thorough {
                return Place { options: self.options(first, &candidates), state, placed };
            }
            idle.iter().for_each(|id| self.put(*id));
            placed.extend(idle);
        }
    }

    /// What may be placed so that `first` gets its place: the last one is tried first.
    fn options(&self, first: usize, candidates: &[usize]) -> Vec<(usize, Option<usize>)> {
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
        let ways = |id: usize| (0..self.ways[id].len()).map(move |way| (id, Some(way)));
        let mut options: Vec<(usize, Option<usize>)> = chosen.flat_map(|(id, _)| ways(*id)).collect();
        // Those that end first are tried first.
        options.sort_by_key(|(id, _)| std::cmp::Reverse(self.operations[*id].ended));
        if self.operations[first].replies.is_none() && self.is_next(first) {
            options.push((first, None));
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

    /// A transaction that leaves one state as it was, and changes another one with the same replies.
    #[test]
    fn what_changes_nothing_here_may_change_something_elsewhere() {
        let transaction = |called, ended, commands: &[&str], replies: &[&str]| Operation {
            commands: commands
                .iter()
                .map(|command| operation(0, 0, command, None).commands.remove(0))
                .collect(),
            replies: Some(replies.iter().map(|reply| (*reply).to_owned()).collect()),
            ..operation(called, ended, "GET s", None)
        };
        let set_and_deleted = transaction(0, 30, &["SET s v", "DEL s"], &["+OK", ":1"]);
        let deleted = [
            operation(0, 10, "SET s x", Some("+OK")),
            set_and_deleted,
            operation(20, 40, "GET s", Some("$-1")),
        ];
        let counted_anew = transaction(0, 30, &["DEL c", "INCRBY c 1"], &[":1", ":1"]);
        let counted = [
            operation(0, 5, "INCRBY c 1", Some(":1")),
            counted_anew,
            operation(6, 20, "INCRBY c 2", Some(":3")),
            operation(31, 40, "GET c", Some("1")),
        ];
        for history in [&deleted[..], &counted] {
            let numbered = history.iter().cloned().enumerate();
            let history: Vec<Operation> =
                numbered.map(|(pipeline, operation)| Operation { pipeline, ..operation }).collect();
            assert_eq!(check(&history), Verdict::Linearizable, "{history:?}");
        }
    }

    /// The server has died before it told whose element the second client got.
    #[test]
    fn who_waits_for_several_keys_may_have_got_an_element_of_any() {
        let history = |last| {
            verdict(&[
                (0, 30, "BLMOVE l m RIGHT LEFT 1", Some("b")),
                (0, 40, "BRPOP m l 1", None),
                (10, 20, "RPUSH l a b", Some(":2")),
                (50, 60, "LRANGE m 0 -1", Some("[b]")),
                (61, 70, "LLEN l", Some(last)),
            ])
        };
        assert_eq!(
            (history(":0"), history(":1"), history(":2")),
            (Verdict::Linearizable, Verdict::Linearizable, Verdict::Not)
        );
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
