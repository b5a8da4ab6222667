//! Judges histories of transactions by their dependency graph (A. Adya, "Weak Consistency: A Generalized Theory and
//! Optimistic Implementations for Distributed Transactions", 1999, chapters 3 and 4).
//!
//! ```text
//! wr   T read a version that U wrote     U -> T
//! ww   T wrote the version after U's     U -> T
//! rw   T read a version, U wrote the one after it: T -> U
//! so   T ended before U began, on one thread: T -> U
//! ```
//!
//! Serializable: no circle at all (PL-3, with the order of each thread). Snapshot isolation: every circle has two rw
//! edges in a row (A. Cerone and A. Gotsman, "Analysing Snapshot Isolation", 2016, theorem 10; Adya's G-SI says the
//! same with start dependencies). No transaction may read a value that was never committed or that its own transaction
//! overwrote (G1a, G1b).

use std::collections::HashMap;

use super::super::Isolation;

/// A written value: no two writes of a history have the same one. `None`: absent, which is at most one version.
pub(super) type Version = Option<u64>;

/// A committed transaction, or a write or a snapshot's reads outside transactions.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// Each thread is a session: its transactions follow one another.
    pub(super) session: usize,
    /// The place among all writes; `None` if the transaction wrote nothing.
    pub(super) place: Option<u64>,
    /// Values of other transactions that it read.
    pub(super) reads: Vec<(usize, Version)>,
    /// The last write to each key.
    pub(super) writes: Vec<(usize, Version)>,
    /// Not a write of any transaction: a value has expired.
    pub(super) is_expiry: bool,
}

impl Node {
    fn has_read(&self, key: usize) -> bool {
        self.reads.iter().any(|(read, _)| *read == key)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    WriteRead,
    WriteWrite,
    Session,
    ReadWrite,
}

/// The targets of each node's edges, with the key of each edge.
type Edges = Vec<Vec<(usize, Edge, usize)>>;

/// Judges nodes in the order of their sessions. The first node is the initial state and the only node of session 0.
pub(super) fn judge(nodes: &[Node], isolation: Isolation) -> Result<(), String> {
    let edges = dependencies(nodes)?;
    let mut graph: Vec<Vec<(usize, String)>> = vec![Vec::new(); nodes.len()];
    for (from, out) in edges.iter().enumerate() {
        for &(to, edge, key) in out {
            let label = format!("{edge:?} k{key}");
            if isolation == Isolation::Serializable {
                graph[from].push((to, label));
            } else if edge == Edge::WriteWrite && nodes[from].is_expiry && !nodes[to].has_read(key) {
                // A write without a read does not depend on whether the old value has expired.
            } else if edge != Edge::ReadWrite {
                for &(behind, second, key) in &edges[to] {
                    if second == Edge::ReadWrite {
                        graph[from].push((behind, format!("{label}, {second:?} k{key}")));
                    }
                }
                graph[from].push((to, label));
            }
        }
    }
    match circle(&graph) {
        None => Ok(()),
        Some(path) => {
            let shown = path.iter().map(|(node, label)| format!("  {label} -> {node} {:?}\n", nodes[*node]));
            Err(format!("a circle:\n{}", shown.collect::<String>()))
        }
    }
}

fn dependencies(nodes: &[Node]) -> Result<Edges, String> {
    let mut by_key: HashMap<usize, Vec<(u64, usize, Version)>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for &(key, version) in &node.writes {
            let place = node.place.ok_or("a write without a place")?;
            by_key.entry(key).or_default().push((place, index, version));
        }
    }
    let mut edges = vec![Vec::new(); nodes.len()];
    // The writer of each version, and the writer of the next one.
    let mut writers: HashMap<(usize, Version), (usize, Option<usize>)> = HashMap::new();
    for (&key, versions) in &mut by_key {
        versions.sort_unstable();
        for (at, &(place, writer, version)) in versions.iter().enumerate() {
            let next = versions.get(at + 1);
            if next.is_some_and(|next| next.0 == place) {
                return Err(format!("two writes at place {place}"));
            }
            let next = next.map(|next| next.1);
            if let Some(next) = next {
                edges[writer].push((next, Edge::WriteWrite, key));
            }
            if writers.insert((key, version), (writer, next)).is_some() {
                return Err(format!("two versions {version:?} of k{key}"));
            }
        }
    }
    for (reader, node) in nodes.iter().enumerate() {
        for &(key, version) in &node.reads {
            let Some(&(writer, next)) = writers.get(&(key, version)) else {
                return Err(format!("{node:?} read k{key} = {version:?}, which nobody committed"));
            };
            if writer != reader {
                edges[writer].push((reader, Edge::WriteRead, key));
            }
            if let Some(next) = next.filter(|&next| next != reader) {
                edges[reader].push((next, Edge::ReadWrite, key));
            }
        }
    }
    let mut last: HashMap<usize, usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        if let Some(before) = last.insert(node.session, index) {
            edges[before].push((index, Edge::Session, 0));
        }
    }
    Ok(edges)
}

/// A circle, as its nodes, each with the edge that led to it.
fn circle(graph: &[Vec<(usize, String)>]) -> Option<Vec<(usize, String)>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Done,
    }
    fn visit(
        at: usize,
        graph: &[Vec<(usize, String)>],
        seen: &mut [Seen],
        path: &mut Vec<(usize, String)>,
    ) -> bool {
        seen[at] = Seen::OnPath;
        for (to, label) in &graph[at] {
            path.push((*to, label.clone()));
            if seen[*to] == Seen::OnPath || (seen[*to] == Seen::No && visit(*to, graph, seen, path)) {
                return true;
            }
            path.pop();
        }
        seen[at] = Seen::Done;
        false
    }
    let mut seen = vec![Seen::No; graph.len()];
    for start in 0..graph.len() {
        let mut path = Vec::new();
        if seen[start] == Seen::No && visit(start, graph, &mut seen, &mut path) {
            let entry = path.last().map(|(node, _)| *node)?;
            let from = path.iter().position(|(node, _)| *node == entry).filter(|&at| at + 1 < path.len());
            return Some(path.split_off(from.map_or(0, |at| at + 1)));
        }
    }
    None
}

fn node(session: usize, place: u64, reads: &[(usize, Version)], writes: &[(usize, Version)]) -> Node {
    let place = (!writes.is_empty()).then_some(place);
    Node { session, place, reads: reads.to_vec(), writes: writes.to_vec(), is_expiry: false }
}

/// Whether a history that begins with x and y absent satisfies snapshot isolation and serializability.
fn verdicts(nodes: &[Node]) -> (bool, bool) {
    let mut all = vec![node(0, 0, &[], &[(0, None), (1, None)])];
    all.extend_from_slice(nodes);
    (judge(&all, Isolation::Snapshot).is_ok(), judge(&all, Isolation::Serializable).is_ok())
}

#[test]
fn the_checker_knows_the_anomalies() {
    let (x, y) = (0, 1);
    let serial = [node(1, 1, &[(x, None)], &[(x, Some(1))]), node(2, 2, &[(x, Some(1))], &[(x, Some(2))])];
    assert_eq!(verdicts(&serial), (true, true));
    let lost_update = [node(1, 1, &[(x, None)], &[(x, Some(1))]), node(2, 2, &[(x, None)], &[(x, Some(2))])];
    assert_eq!(verdicts(&lost_update), (false, false));
    let write_skew = [node(1, 1, &[(x, None)], &[(y, Some(1))]), node(2, 2, &[(y, None)], &[(x, Some(2))])];
    assert_eq!(verdicts(&write_skew), (true, false));
    let torn_read =
        [node(1, 1, &[], &[(x, Some(1)), (y, Some(2))]), node(2, 0, &[(x, Some(1)), (y, None)], &[])];
    assert_eq!(verdicts(&torn_read), (false, false));
    // A read-only transaction sees the second of two transactions, which did not see the first (Fekete and others,
    // 2004).
    let read_only = [
        node(1, 1, &[(x, None)], &[(y, Some(1))]),
        node(2, 2, &[(y, None), (x, None)], &[(x, Some(2))]),
        node(3, 0, &[(x, None), (y, Some(1))], &[]),
    ];
    assert_eq!(verdicts(&read_only), (true, false));
    let long_fork = [
        node(1, 1, &[], &[(x, Some(1))]),
        node(2, 2, &[], &[(y, Some(2))]),
        node(3, 0, &[(x, Some(1)), (y, None)], &[]),
        node(4, 0, &[(x, None), (y, Some(2))], &[]),
    ];
    assert_eq!(verdicts(&long_fork), (false, false));
    // One transaction reads a value that another finds expired, and commits after it.
    let z = 2;
    let put = node(1, 1, &[], &[(z, Some(1))]);
    let expiry = Node { is_expiry: true, ..node(9, 2, &[], &[(z, None)]) };
    let finder = node(2, 3, &[(z, None), (y, None)], &[(x, Some(3))]);
    let late = node(3, 4, &[(z, Some(1))], &[(y, Some(4))]);
    assert_eq!(verdicts(&[put.clone(), expiry.clone(), finder, late]), (true, false));
    let lost_expiry = [put.clone(), expiry.clone(), node(3, 4, &[(z, Some(1))], &[(z, Some(4))])];
    assert_eq!(verdicts(&lost_expiry), (false, false));
    assert_eq!(verdicts(&[put, expiry, node(3, 4, &[], &[(z, Some(4))])]), (true, true));
    let aborted = [node(1, 0, &[(x, Some(7))], &[])];
    assert_eq!(verdicts(&aborted), (false, false));
    let forgets_its_own = [node(1, 1, &[], &[(x, Some(1))]), node(1, 0, &[(x, None)], &[])];
    assert_eq!(verdicts(&forgets_its_own), (false, false));
}
