//! Versions of a source.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A point in the history of a source, as the source writes it.
///
/// Two that are decimal numbers are ordered by size, as Kubernetes promises for versions of one resource since 1.35; any other is only
/// equal to itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Arc<str>);

impl ResourceVersion {
    /// As the source writes it. O(1).
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_number(&self) -> bool {
        self.digits().is_some()
    }

    /// Without leading zeros, which are no part of a size.
    fn digits(&self) -> Option<&str> {
        let is_number = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| self.0.trim_start_matches('0'))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.digits(), other.digits()) {
            // Of any length: etcd's revisions have 63 bits, other sources' may have more.
            (Some(one), Some(two)) => {
                Some(one.len().cmp(&two.len()).then_with(|| one.cmp(two)).then_with(|| self.0.cmp(&other.0)))
            }
            _ => (self == other).then_some(Ordering::Equal),
        }
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        ResourceVersion(text.into())
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        ResourceVersion(text.into())
    }
}

impl From<ResourceVersion> for delta_fifo::Version {
    fn from(version: ResourceVersion) -> Self {
        version.0.into()
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_by_size_and_other_texts_not_at_all() {
        let version = ResourceVersion::from;
        assert!(version("9") < version("10"));
        assert!(version("18446744073709551616") > version("18446744073709551615"));
        assert_eq!(version("a").partial_cmp(&version("b")), None);
        assert_eq!(version("a").partial_cmp(&version("a")), Some(Ordering::Equal));
        assert_eq!(version("").partial_cmp(&version("1")), None);
    }
}
