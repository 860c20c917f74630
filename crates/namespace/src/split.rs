//! Paths of a list as directory and name beneath the root.

use crate::index::path_problem;

/// Paths taken apart, in the order of the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split<'a> {
    /// Each directory that differs from the one of the path before.
    pub parents: Vec<&'a [u8]>,
    /// Of each path its directory, as an index of `parents`.
    pub parent: Vec<u32>,
    /// Of each path its last component.
    pub names: Vec<&'a [u8]>,
    /// The paths, by index, that are not beneath the root or could be written in another way; their
    /// directory means nothing, and their name is empty.
    pub odd: Vec<usize>,
}

/// Parts paths, each of which begins with `top`: the root with a slash behind it.
pub fn split<'a>(paths: impl ExactSizeIterator<Item = &'a [u8]>, top: &[u8]) -> Split<'a> {
    let mut split = Split {
        parent: Vec::with_capacity(paths.len()),
        names: Vec::with_capacity(paths.len()),
        ..Split::default()
    };
    for (at, path) in paths.enumerate() {
        let plain = path
            .strip_prefix(top)
            .filter(|below| !below.is_empty() && path_problem(below).is_none());
        if plain.is_none() {
            split.odd.push(at);
        }
        let below = plain.unwrap_or_default();
        let (parent, name) = match below.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&below[..slash], &below[slash + 1..]),
            None => (&below[..0], below),
        };
        if split.parents.last() != Some(&parent) {
            split.parents.push(parent);
        }
        split.parent.push((split.parents.len() - 1) as u32);
        split.names.push(name);
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_kept_once_where_they_follow_one_another() {
        let paths = [&b"/s/a/x"[..], b"/s/a/\xff", b"/s/b", b"/s/a/x/.y", b"/s/a/x"];
        let split = split(paths.into_iter(), b"/s/");
        assert_eq!(split.parents, [&b"a"[..], b"", b"a/x", b"a"]);
        assert_eq!(split.parent, [0, 0, 1, 2, 3]);
        assert_eq!(split.names, [&b"x"[..], b"\xff", b"b", b".y", b"x"]);
        assert!(split.odd.is_empty());
    }

    #[test]
    fn what_could_be_written_in_another_way_is_odd() {
        let odd = [
            &b"/s/"[..],
            b"/s",
            b"/s2/a",
            b"/s//a",
            b"/s/a/",
            b"/s/./a",
            b"/s/..",
            b"/s/a\0b",
            b"a",
            b"",
        ];
        let split = split(odd.into_iter(), b"/s/");
        assert_eq!(split.odd, (0..odd.len()).collect::<Vec<_>>());
        assert!(split.names.iter().all(|name| name.is_empty()));
    }
}
