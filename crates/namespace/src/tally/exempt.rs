//! Exempt paths, prepared for many questions: as many looks as a path has parts.
//!
//! [`Rules::is_exempt_path`](crate::Rules::is_exempt_path) is the definition; it asks every exemption. Here
//! the ancestors of a directory are looked up among them.

use std::collections::{HashMap, HashSet};

/// Whether the files of a directory are exempt, from its path alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of them are exempt.
    Exempt,
    /// None of them is.
    Not,
    /// Some names are: those of this list.
    Names(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Paths {
    all: HashSet<Vec<u8>>,
    /// The exemptions in each directory, by their names.
    within: HashMap<Vec<u8>, u32>,
    names: Vec<HashSet<Vec<u8>>>,
}

impl Paths {
    pub(crate) fn new(exempt: &[Vec<u8>]) -> Self {
        let mut paths = Self::default();
        for path in exempt {
            paths.all.insert(path.clone());
            let slash = path.iter().rposition(|byte| *byte == b'/');
            let (parent, name) = match slash {
                // Such a path is not relative: it is no file of the root.
                Some(0) => continue,
                Some(at) => (&path[..at], &path[at + 1..]),
                None => (&b""[..], &path[..]),
            };
            let fresh = paths.names.len() as u32;
            let list = *paths.within.entry(parent.to_vec()).or_insert(fresh);
            if list == fresh {
                paths.names.push(HashSet::new());
            }
            paths.names[list as usize].insert(name.to_vec());
        }
        paths
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn of_directory(&self, parent: &[u8]) -> Verdict {
        let slashes = parent.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut ancestors = slashes.map(|(at, _)| &parent[..at]);
        if self.all.contains(&b""[..])
            || self.all.contains(parent)
            || ancestors.any(|ancestor| self.all.contains(ancestor))
        {
            return Verdict::Exempt;
        }
        self.within.get(parent).map_or(Verdict::Not, |list| Verdict::Names(*list))
    }

    pub(crate) fn is_named(&self, list: u32, name: &[u8]) -> bool {
        self.names[list as usize].contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Counted, Exempt, Exemptions, Rules};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_says_what_the_rules_say(
            exempt in prop::collection::vec("[ab/]{0,5}", 0..4),
            parent in "[ab/]{0,6}",
            name in "[ab]{1,2}",
        ) {
            let paths = exempt.iter().map(|path| path.clone().into_bytes()).collect();
            let rules = Rules {
                counted: Counted::ALL,
                as_of_s: 0,
                old_enough_before_s: 0,
                minimum_size_bytes: 0,
                exempt: Exemptions::new(Exempt { paths, ..Exempt::default() }),
                linked: false,
            };
            let paths = Paths::new(&rules.exempt.lists().paths);
            let exempted = match paths.of_directory(parent.as_bytes()) {
                Verdict::Exempt => true,
                Verdict::Not => false,
                Verdict::Names(list) => paths.is_named(list, name.as_bytes()),
            };
            prop_assert_eq!(exempted, rules.is_exempt_path(parent.as_bytes(), name.as_bytes()));
        }
    }
}
