//! Paths of a list as directory and name beneath the root.
//!
//! A path is taken literally, never normalised: `a/../b` may be something else than `b` where `a`
//! is a link, so it is refused.

use memchr::{memchr_iter, memchr2, memrchr};

use crate::columns::{Column, Values, Views};

/// Places paths beneath the root.
#[derive(Clone, Debug)]
pub struct Placing {
    top: Vec<u8>,
    beneath: Vec<u8>,
    /// Whether all paths have to be absolute, or all relative.
    uniform: bool,
    /// Whether they are absolute; unknown before the first.
    absolute: Option<bool>,
    /// The directory of the path before, with the root and the slash behind it, and its view.
    last: (Vec<u8>, u128),
    parents: Views,
    names: Views,
}

/// Why a path has no place; the root itself, which has no name, is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unplaced {
    Root,
    Refused(&'static str),
}

impl Placing {
    /// Returns where absolute paths begin with `root`, and others with `beneath` instead.
    #[must_use]
    pub fn new(root: &[u8], beneath: &[u8]) -> Self {
        let end = root.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        let top = [&root[..end], b"/"].concat();
        let last = (Vec::new(), 0);
        Self {
            top,
            beneath: beneath.to_vec(),
            uniform: false,
            absolute: None,
            last,
            parents: Views::default(),
            names: Views::default(),
        }
    }

    /// Returns the same of a list whose paths are all absolute or all relative, as the first of them.
    #[must_use]
    pub fn uniform(self, absolute: Option<bool>) -> Self {
        Self { uniform: true, absolute, ..self }
    }

    /// Returns the columns of paths, null where one has no place, and why it has none by its index.
    ///
    /// The root itself, which has no name, is not an error: its reason is empty.
    pub fn place<'a>(
        mut self,
        paths: impl Iterator<Item = &'a [u8]>,
    ) -> ([Column; 2], Vec<(usize, &'static str)>) {
        let mut unplaced = Vec::new();
        let place = |(at, path)| {
            let placed = self.push(path);
            if let Err(why) = placed {
                self.parents.push(b"");
                self.names.push(b"");
                unplaced.push((at, if let Unplaced::Refused(reason) = why { reason } else { "" }));
            }
            placed.is_ok()
        };
        let known: Vec<bool> = paths.enumerate().map(place).collect();
        let columns = self.take().map(|column| Column { known: known.clone(), ..column });
        (columns, unplaced)
    }

    pub(super) fn rows(&self) -> usize {
        self.names.views.len()
    }

    /// Forgets all rows but the first.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.parents.views.truncate(rows);
        self.names.views.truncate(rows);
    }

    /// Returns the columns so far and begins anew.
    pub(super) fn take(&mut self) -> [Column; 2] {
        self.last.0.clear();
        let parents = Values::Bytes(std::mem::take(&mut self.parents));
        let names = Values::Bytes(std::mem::take(&mut self.names));
        [Column::new("parent", parents), Column::new("name", names)]
    }

    /// Adds a row.
    pub(super) fn push(&mut self, path: &[u8]) -> Result<(), Unplaced> {
        let (directory, view) = &self.last;
        if !directory.is_empty() {
            if let Some(name) = path.strip_prefix(directory.as_slice()) {
                if !matches!(name, b"" | b"." | b"..") && memchr2(b'/', 0, name).is_none() {
                    self.parents.views.push(*view);
                    self.names.push(name);
                    return Ok(());
                }
            }
        }
        if let Some(at) = plain(path, &self.top) {
            self.of_a_kind(path)?;
            let parent = path.get(self.top.len()..at).unwrap_or_default();
            let view = self.parents.keep(parent);
            self.parents.views.push(view);
            self.names.push(&path[at + 1..]);
            self.last.0.clear();
            self.last.0.extend_from_slice(&path[..=at]);
            self.last.1 = view;
            return Ok(());
        }
        self.of_a_kind(path)?;
        let (parent, name) = with_care(path, &self.top, &self.beneath)?;
        self.parents.push(&parent);
        self.names.push(&name);
        Ok(())
    }

    /// Looks whether a path is absolute where the others are: a tool prints all in one way, and what is
    /// left of a torn one may look like the other.
    fn of_a_kind(&mut self, path: &[u8]) -> Result<(), Unplaced> {
        let Some(is_absolute) = path.first().map(|&byte| byte == b'/').filter(|_| self.uniform)
        else {
            return Ok(());
        };
        match *self.absolute.get_or_insert(is_absolute) {
            absolute if absolute == is_absolute => Ok(()),
            true => Err(Unplaced::Refused("it is relative in a list of absolute paths")),
            false => Err(Unplaced::Refused("it is absolute in a list of relative paths")),
        }
    }
}

/// Returns where the last slash is of an absolute path without anything that needs care.
fn plain(path: &[u8], top: &[u8]) -> Option<usize> {
    let rest = path.strip_prefix(top)?;
    if memchr::memchr(0, rest).is_some() {
        return None;
    }
    let odd = |at: usize| {
        matches!(
            &path[at + 1..],
            [] | [b'/', ..] | [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..]
        )
    };
    let begin = top.len() - 1;
    if odd(begin) || memchr_iter(b'/', rest).any(|at| odd(begin + 1 + at)) {
        return None;
    }
    memrchr(b'/', path)
}

/// Returns directory and name, without doubled slashes and `.`, which mean nothing anywhere.
fn with_care(path: &[u8], top: &[u8], beneath: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Unplaced> {
    if path.is_empty() {
        return Err(Unplaced::Refused("it has no path"));
    }
    if path.contains(&0) {
        return Err(Unplaced::Refused("there is a NUL in its path"));
    }
    let before = if path.starts_with(b"/") { top } else { beneath };
    let mut parts = parts(path);
    if !self::parts(before).all(|part| parts.next() == Some(part)) {
        return Err(Unplaced::Refused("it is not beneath the root"));
    }
    let mut parts: Vec<&[u8]> = parts.collect();
    if parts.contains(&b"..".as_slice()) {
        return Err(Unplaced::Refused("its path goes through .., which may lead anywhere"));
    }
    let name = parts.pop().ok_or(Unplaced::Root)?;
    Ok((parts.join(b"/".as_slice()), name.to_vec()))
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_a_place_is_null_among_the_others() {
        let paths = [&b"/s/a/x"[..], b"/s/a/..", b"/s/", b"/s/a/y", b"./z", b"/s//a/\xff"];
        let (columns, unplaced) = Placing::new(b"/s", b"").place(paths.into_iter());
        let expected =
            [[&b"a"[..], b"x"], [b"", b""], [b"", b""], [b"a", b"y"], [b"", b"z"], [b"a", b"\xff"]];
        for (at, column) in columns.iter().enumerate() {
            let mut views = Views::default();
            expected.iter().for_each(|pair| views.push(pair[at]));
            let Values::Bytes(found) = &column.values else { panic!("no bytes") };
            assert_eq!(found.views, views.views);
            assert_eq!(column.known, [true, false, false, true, true, true]);
        }
        let reason = "its path goes through .., which may lead anywhere";
        assert_eq!(unplaced, [(1, reason), (2, "")]);
    }

    #[test]
    fn paths_of_one_list_are_all_relative_or_all_absolute() {
        let paths = || [&b""[..], b"./a", b"/s/b", b"c"].into_iter();
        let (_, unplaced) = Placing::new(b"/s", b"").uniform(None).place(paths());
        let none = (0, "it has no path");
        assert_eq!(unplaced, [none, (2, "it is absolute in a list of relative paths")]);
        let (_, unplaced) = Placing::new(b"/s", b"").uniform(Some(true)).place(paths());
        let reason = "it is relative in a list of absolute paths";
        assert_eq!(unplaced, [none, (1, reason), (3, reason)]);
    }
}
