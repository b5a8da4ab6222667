//! The policy of a shard. The default one is stored in place, so that a hit calls it directly; any other is
//! behind a pointer.

use super::Policy;
use super::s3_fifo::S3Fifo;
use crate::options::CachePolicy;

/// See the module.
#[derive(Debug)]
pub(crate) enum Chosen {
    Default(S3Fifo),
    Other(Box<dyn Policy>),
}

impl Chosen {
    /// A policy that knows no pages yet.
    pub(crate) fn new(policy: CachePolicy) -> Self {
        match policy {
            CachePolicy::S3Fifo => Chosen::Default(S3Fifo::default()),
            other => Chosen::Other(super::new_policy(other)),
        }
    }
}

impl Policy for Chosen {
    fn page_bytes(&self) -> usize {
        match self {
            Chosen::Default(policy) => policy.page_bytes(),
            Chosen::Other(policy) => policy.page_bytes(),
        }
    }

    fn arriving(&mut self, hash: u64) {
        match self {
            Chosen::Default(policy) => policy.arriving(hash),
            Chosen::Other(policy) => policy.arriving(hash),
        }
    }

    fn inserted(&mut self, slot: u32) {
        match self {
            Chosen::Default(policy) => policy.inserted(slot),
            Chosen::Other(policy) => policy.inserted(slot),
        }
    }

    #[inline]
    fn hit(&mut self, slot: u32) {
        match self {
            Chosen::Default(policy) => policy.hit(slot),
            Chosen::Other(policy) => policy.hit(slot),
        }
    }

    fn removed(&mut self, slot: u32) {
        match self {
            Chosen::Default(policy) => policy.removed(slot),
            Chosen::Other(policy) => policy.removed(slot),
        }
    }

    fn evict(&mut self, hashes: &[u64]) -> Option<u32> {
        match self {
            Chosen::Default(policy) => policy.evict(hashes),
            Chosen::Other(policy) => policy.evict(hashes),
        }
    }

    #[cfg(test)]
    fn ghosts(&self) -> Vec<u64> {
        match self {
            Chosen::Default(policy) => policy.ghosts(),
            Chosen::Other(policy) => policy.ghosts(),
        }
    }
}
