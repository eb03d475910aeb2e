//! Which bits of a key's hash choose its shard, and which its place in there.

use std::hash::{BuildHasher, Hash};

use super::DeltaFifo;

/// Spreads the bits of a hash: the tables use the low ones, the shards high ones.
#[inline(always)]
pub(super) fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^ (hash >> 29)
}

/// Where the bits begin that choose the shard: above those that tables go by.
const SHARD: u32 = 48;

/// Of so many, a power of two.
#[inline(always)]
pub(super) fn shard_of(hash: u64, shards: usize) -> usize {
    (hash >> SHARD) as usize & (shards - 1)
}

/// All that counts of the hash of a key that is in a shard's table: its low bits, and those that led to the shard.
pub(super) fn hash_in(shard: usize, low: u32) -> u64 {
    (shard as u64) << SHARD | u64::from(low)
}

impl<K, V, S: BuildHasher> DeltaFifo<K, V, S> {
    #[inline(always)]
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        mix(self.hasher.hash_one(key))
    }
}

impl<K, V, S> DeltaFifo<K, V, S> {
    #[inline(always)]
    pub(super) fn shard_of(&self, hash: u64) -> usize {
        shard_of(hash, self.core.shards.len())
    }
}
