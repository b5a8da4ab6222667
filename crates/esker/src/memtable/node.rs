//! One entry in the arena, and the links that join entries into a skip list.
//!
//! ```text
//!   link[h-1] ... link[1] | link[0]  tag  key_len value_len  key ... value ... pad
//!                         ^ where pointers point; 8-aligned
//!   link = bound (8) + next (8)          tag = sequence number << 8 | kind
//! ```
//!
//! **Heads.** A key's head is a number of 8 bytes that never decreases when keys increase (see [`super::heads`]).
//! Therefore unequal heads decide a comparison. **Bounds.** In addition to the pointer, a link keeps the head of the
//! node that it points to. Therefore a search learns from its current node whether to step, without touching the next
//! node. Most cache misses of a skip list are nodes that turn out to be too far.
//!
//! Pointer and bound cannot change in one atomic step. These weaker invariants suffice:
//! 1. A link's pointer only ever changes to smaller nodes (new ones squeeze in), its bound only decreases, and the
//!    pointer changes first. Therefore a thread that reads the bound and then the pointer gets a node whose head is at
//!    most that bound: it may step when `bound < head`.
//! 2. A bound is stale (too high) only from the moment a node is linked until its inserter lowers the bound. An insert
//!    that passes such a node lowers the bound itself. Therefore, when an insert returns, no link on level 0 that points
//!    to its node or to a smaller one has a bound above its head, and later inserts keep it so. Hence `bound > head` on
//!    level 0 proves to a reader that no entry of that head has been inserted, though a node that is still being inserted
//!    may be there.
//! 3. An operation that needs the true successor (an insert or a cursor) compares with the node itself.

use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use crate::canary::broken;
use crate::cursor::{Kind, SeqNo};
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// The bound of a link that points nowhere.
pub(super) const END: u64 = u64::MAX;

/// One level of a tower.
#[repr(C)]
pub(super) struct Link {
    bound: AtomicU64,
    next: AtomicPtr<Node>,
}

impl Link {
    pub(super) fn new() -> Link {
        Link { bound: AtomicU64::new(END), next: AtomicPtr::default() }
    }

    /// At least the head of the node that a later call of [`Link::next`] returns.
    #[inline]
    pub(super) fn bound(&self) -> u64 {
        self.bound.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn next(&self) -> Option<NodeRef<'_>> {
        NonNull::new(self.next.load(Ordering::Acquire)).map(NodeRef::new)
    }

    /// Prefetches the bytes that a comparison with the successor reads.
    #[inline]
    pub(super) fn prefetch_next(&self) {
        let next = self.next.load(Ordering::Relaxed);
        prefetch(next.cast::<u8>());
        // The lengths and the start of the key, if they lie in another cache line.
        prefetch(next.cast::<u8>().wrapping_add(size_of::<Node>()));
    }

    /// Replaces the successor `from` with `node`; `false` if `from` is no longer the successor.
    #[inline]
    pub(super) fn replace(&self, from: Option<NodeRef<'_>>, node: NodeRef<'_>, head: u64) -> bool {
        let from = from.map_or(std::ptr::null_mut(), |from| from.ptr.as_ptr());
        if broken("list-link") {
            self.next.store(node.ptr.as_ptr(), Ordering::Release);
            self.lower(head);
            return true;
        }
        let order = if broken("list-order") { Ordering::Relaxed } else { Ordering::AcqRel };
        let swapped = self.next.compare_exchange(from, node.ptr.as_ptr(), order, Ordering::Relaxed).is_ok();
        if swapped {
            self.lower(head);
        }
        swapped
    }

    /// Lowers the bound to the head of a node that is, or was, the successor.
    #[inline]
    pub(super) fn lower(&self, head: u64) {
        self.bound.fetch_min(head, Ordering::Release);
    }
}

/// The fixed part of an entry. Key and value follow it; the upper links precede it.
#[repr(C)]
pub(super) struct Node {
    link: Link,
    tag: u64,
    key_len: u32,
    value_len: u32,
}

/// A column of links, one for each level below some height: a node's, or that of the head of the list.
#[derive(Clone, Copy)]
pub(super) struct Tower<'a> {
    ground: NonNull<Link>,
    life: PhantomData<&'a Link>,
}

impl<'a> Tower<'a> {
    /// The tower whose level 0 is the last of `links`.
    pub(super) fn head<const N: usize>(links: &'a [Link; N]) -> Tower<'a> {
        let first = NonNull::from(links).cast::<Link>();
        // SAFETY: the last element of an array that is not empty.
        Tower { ground: unsafe { first.add(N - 1) }, life: PhantomData }
    }

    /// # Safety
    /// The tower is higher than `level`, and its link there has been written.
    #[inline]
    pub(super) unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: the caller's promise; links lie downwards from the ground, in one allocation.
        unsafe { self.ground.sub(level).as_ref() }
    }
}

/// A [`NodeRef`] that does not prove that its memtable is alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodePtr(NonNull<Node>);

// SAFETY: a node is not bound to a thread: its links are atomics and the rest never changes.
unsafe impl Send for NodePtr {}
// SAFETY: as above.
unsafe impl Sync for NodePtr {}

impl NodePtr {
    #[inline]
    pub(super) fn new(node: *mut Node) -> Option<NodePtr> {
        NonNull::new(node).map(NodePtr)
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut Node {
        self.0.as_ptr()
    }

    /// # Safety
    /// The memtable that the node came from lives at least as long as `'a`.
    #[inline]
    pub(super) unsafe fn as_ref<'a>(self) -> NodeRef<'a> {
        NodeRef::new(self.0)
    }
}

/// A node that is completely written and lives as long as its memtable.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'a> {
    ptr: NonNull<Node>,
    life: PhantomData<&'a Link>,
}

impl<'a> NodeRef<'a> {
    #[inline]
    fn new(ptr: NonNull<Node>) -> NodeRef<'a> {
        NodeRef { ptr, life: PhantomData }
    }

    /// The same node as a pointer, to be stored together with an owner of the memtable.
    #[inline]
    pub(super) fn ptr(self) -> NodePtr {
        NodePtr(self.ptr)
    }

    #[inline]
    pub(super) fn tower(self) -> Tower<'a> {
        Tower { ground: self.ptr.cast(), life: PhantomData }
    }

    #[inline]
    pub(super) fn next(self) -> Option<NodeRef<'a>> {
        // SAFETY: every node has a link at level 0.
        unsafe { self.tower().link(0) }.next()
    }

    #[inline]
    pub(super) fn tag(self) -> u64 {
        // SAFETY: a node is completely written before any thread can have a reference.
        unsafe { (*self.ptr.as_ptr()).tag }
    }

    #[inline]
    pub(super) fn seq(self) -> SeqNo {
        self.tag() >> 8
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        Kind::of_tag(self.tag() as u8)
    }

    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        // SAFETY: `key_len` bytes after the fixed part were written with the node, and never change.
        unsafe {
            let len = (*self.ptr.as_ptr()).key_len as usize;
            slice::from_raw_parts(self.ptr.add(1).cast().as_ptr(), len)
        }
    }

    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        // SAFETY: `value_len` bytes after the key were written with the node, and never change.
        unsafe {
            let (key_len, len) = ((*self.ptr.as_ptr()).key_len, (*self.ptr.as_ptr()).value_len);
            let start = self.ptr.add(1).cast::<u8>().add(key_len as usize);
            slice::from_raw_parts(start.as_ptr(), len as usize)
        }
    }

    /// Writes the link at `level` of a node that is not yet reachable at that level.
    ///
    /// # Safety
    /// The node is higher than `level`, and only the caller can reach that link.
    #[inline]
    pub(super) unsafe fn init_link(self, level: usize, bound: u64, next: Option<NodeRef<'_>>) {
        let next = next.map_or(std::ptr::null_mut(), |next| next.ptr.as_ptr());
        let link = Link { bound: AtomicU64::new(bound), next: AtomicPtr::new(next) };
        // SAFETY: the caller's promise; the space was carved with the node.
        unsafe { self.ptr.cast::<Link>().sub(level).write(link) };
    }
}

/// Bytes that an entry takes, padding included.
#[inline]
pub(super) fn size(height: usize, key_len: usize, value_len: usize) -> usize {
    let fixed = size_of::<Node>() + (height - 1) * size_of::<Link>();
    (fixed + key_len + value_len).next_multiple_of(super::arena::ALIGN)
}

/// Writes an entry, without its links, at `at`.
///
/// # Safety
/// `at` is aligned to `ALIGN`, and the [`size`] bytes from there on belong to the caller.
#[inline]
pub(super) unsafe fn write<'a>(
    at: *mut u8,
    height: usize,
    key: &[u8],
    tag: u64,
    value: &[u8],
) -> NodeRef<'a> {
    // SAFETY: all of it lies within `size(..)` bytes from `at`; the sources cannot overlap fresh memory.
    unsafe {
        let node = at.add((height - 1) * size_of::<Link>()).cast::<Node>();
        (&raw mut (*node).tag).write(tag);
        (&raw mut (*node).key_len).write(key.len() as u32);
        (&raw mut (*node).value_len).write(value.len() as u32);
        let bytes = node.add(1).cast::<u8>();
        bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
        bytes.add(key.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
        if broken("entry-bounds") {
            bytes.add(key.len() + value.len()).write_bytes(0, 64);
        }
        NodeRef::new(NonNull::new_unchecked(node))
    }
}

/// The target of a search: the first entry that is not [`Target::after`].
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    pub(super) key: &'k [u8],
    pub(super) head: u64,
    pub(super) tag: u64,
}

impl Target<'_> {
    /// Whether the target comes after `node`: keys ascend, then sequence numbers descend.
    #[inline]
    pub(super) fn after(&self, node: NodeRef<'_>) -> bool {
        match node.key().cmp(self.key) {
            Order::Less => true,
            Order::Equal => node.tag() > self.tag,
            Order::Greater => false,
        }
    }
}

/// Prefetches a cache line. This is a hint; any address will do.
#[inline]
pub(super) fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
