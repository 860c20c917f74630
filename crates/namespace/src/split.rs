//! Paths of a list as directory and name beneath the root.

use crate::index::{name_problem, path_problem};

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
    let mut plain: Option<&[u8]> = None;
    for (at, path) in paths.enumerate() {
        let (above, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..=slash], &path[slash + 1..]),
            None => (&path[..0], path),
        };
        // Mostly a directory is that of the path before, which was looked at.
        let known = plain == Some(above) || is_plain(above, top);
        if !known || name_problem(name).is_some() {
            split.odd.push(at);
            split.parent.push(0);
            split.names.push(&[]);
            continue;
        }
        if plain != Some(above) {
            plain = Some(above);
            split.parents.push(above[top.len()..].strip_suffix(b"/").unwrap_or_default());
        }
        split.parent.push((split.parents.len() - 1) as u32);
        split.names.push(name);
    }
    split
}

/// Whether a directory, with a slash behind it, is beneath the root and written in the one way it can be.
fn is_plain(above: &[u8], top: &[u8]) -> bool {
    above.strip_prefix(top).is_some_and(|below| {
        below.is_empty()
            || below
                .strip_suffix(b"/")
                .is_some_and(|path| !path.is_empty() && path_problem(path).is_none())
    })
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
