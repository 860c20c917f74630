//! Files with several names: all looks at each, wherever in the index.
//!
//! A name of such a file frees nothing; only the last does. So the file counts once, and it is eligible only
//! if every name that it has was seen and every one of them is.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::rules::Kept;

/// An object, whatever its names.
pub(crate) type Key = (u64, [u8; 16]);

/// One look at a file. Of several looks the greatest is believed, so that their order does not matter:
/// first the latest use, then the allocated bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Look {
    /// Its last use before it is clamped; `None` where a time that counts is not known.
    pub(crate) last_use_s: Option<i64>,
    pub(crate) allocated_bytes: u64,
    pub(crate) uid: u32,
    pub(crate) project: Option<u32>,
    /// The OSTs of its data; `None` where that was not asked or is not known.
    pub(crate) osts: Option<Box<[u32]>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Linked {
    /// How many names it has; the most that was ever seen.
    pub(crate) links: u32,
    pub(crate) seen: u64,
    /// The first reason for which one of its names is kept.
    pub(crate) kept: Option<Kept>,
    pub(crate) look: Look,
}

impl Linked {
    /// Why it is kept; `None` where it is eligible.
    pub(crate) fn verdict(&self) -> Option<Kept> {
        let whole = self.seen == u64::from(self.links);
        first(self.kept, (!whole).then_some(Kept::OtherLinks))
    }

    fn merge(&mut self, other: Self) {
        self.links = self.links.max(other.links);
        self.seen += other.seen;
        self.kept = first(self.kept, other.kept);
        if other.look > self.look {
            self.look = other.look;
        }
    }
}

/// The first of two reasons, in their order.
pub(crate) fn first(one: Option<Kept>, other: Option<Kept>) -> Option<Kept> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<(Key, Linked)>", from = "Vec<(Key, Linked)>")]
pub(crate) struct Links(HashMap<Key, Linked>);

/// Lists the files in the order of their keys.
impl From<Links> for Vec<(Key, Linked)> {
    fn from(links: Links) -> Self {
        let mut all: Self = links.0.into_iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}

impl From<Vec<(Key, Linked)>> for Links {
    fn from(all: Vec<(Key, Linked)>) -> Self {
        let mut links = Self::default();
        all.into_iter().for_each(|(key, linked)| links.add(key, linked));
        links
    }
}

impl Links {
    pub(crate) fn add(&mut self, key: Key, linked: Linked) {
        match self.0.entry(key) {
            std::collections::hash_map::Entry::Occupied(mut known) => known.get_mut().merge(linked),
            std::collections::hash_map::Entry::Vacant(free) => drop(free.insert(linked)),
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (key, linked) in other.0 {
            self.add(key, linked);
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Linked> {
        self.0.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Linked> {
        self.0.values()
    }
}
