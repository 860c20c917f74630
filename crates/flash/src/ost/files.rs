//! Files of one OST: what each has, which are closed, and which was closed first.

use crate::cells::fetch;
use crate::drive::below;
use rand_xoshiro::Xoshiro256PlusPlus;

const NIL: u32 = u32::MAX;

/// A stretch of units, and which one of its file comes after it.
#[derive(Debug, Clone, Copy)]
struct Piece {
    first: u32,
    len: u32,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct File {
    /// Its first and last piece.
    head: u32,
    tail: u32,
    /// Index among the closed files.
    place: u32,
    /// Closed right before it, and right after it.
    older: u32,
    newer: u32,
}

/// All files. Those that are open are known by their number alone; only closed ones are found.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    files: Vec<File>,
    unused: Vec<u32>,
    pieces: Vec<Piece>,
    unused_pieces: Vec<u32>,
    closed: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            unused: Vec::new(),
            pieces: Vec::new(),
            unused_pieces: Vec::new(),
            closed: Vec::new(),
            oldest: NIL,
            newest: NIL,
        }
    }
}

impl Files {
    pub(crate) fn closed(&self) -> usize {
        self.closed.len()
    }

    /// Opens a file that has nothing, and returns its number.
    pub(crate) fn open(&mut self) -> u32 {
        let fresh = File { head: NIL, tail: NIL, place: NIL, older: NIL, newer: NIL };
        store(&mut self.files, &mut self.unused, fresh)
    }

    /// Gives a file units behind those that it has; both in one group where they are one stretch.
    pub(crate) fn append(&mut self, file: u32, first: u32, len: u32) {
        let tail = self.files[file as usize].tail;
        if let Some(last) = self.pieces.get_mut(tail as usize) {
            let same_group = last.first / super::GROUP_UNITS == first / super::GROUP_UNITS;
            if last.first + last.len == first && same_group {
                last.len += len;
                return;
            }
        }
        let piece =
            store(&mut self.pieces, &mut self.unused_pieces, Piece { first, len, next: NIL });
        let owner = &mut self.files[file as usize];
        owner.tail = piece;
        if tail == NIL {
            owner.head = piece;
        } else {
            self.pieces[tail as usize].next = piece;
        }
    }

    /// Returns the unit behind the last one of a file; `None` where it has none.
    pub(crate) fn end(&self, file: u32) -> Option<u32> {
        let last = self.pieces.get(self.files[file as usize].tail as usize)?;
        Some(last.first + last.len)
    }

    /// Takes the first stretch from a file.
    pub(crate) fn pop(&mut self, file: u32) -> Option<(u32, u32)> {
        let head = self.files[file as usize].head;
        let Piece { first, len, next } = *self.pieces.get(head as usize)?;
        self.files[file as usize].head = next;
        self.unused_pieces.push(head);
        Some((first, len))
    }

    /// Ends the writing of a file: it can be deleted from now on. One that has nothing is forgotten.
    pub(crate) fn close(&mut self, file: u32) {
        if self.files[file as usize].head == NIL {
            self.forget(file);
            return;
        }
        self.files[file as usize].place = self.closed.len() as u32;
        self.files[file as usize].older = self.newest;
        self.closed.push(file);
        match self.newest {
            NIL => self.oldest = file,
            newest => self.files[newest as usize].newer = file,
        }
        self.newest = file;
    }

    /// Returns any closed file, all equally likely.
    pub(crate) fn any(&self, draws: &mut Xoshiro256PlusPlus) -> Option<u32> {
        below(draws, self.closed.len() as u32).map(|place| self.closed[place as usize])
    }

    /// Returns the file that was closed first.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// Takes a closed file out of those that are found.
    pub(crate) fn unlist(&mut self, file: u32) {
        let File { head, place, older, newer, .. } = self.files[file as usize];
        fetch(&self.pieces, head as usize);
        fetch(&self.files, older as usize);
        fetch(&self.files, newer as usize);
        self.closed.swap_remove(place as usize);
        if let Some(moved) = self.closed.get(place as usize) {
            self.files[*moved as usize].place = place;
        }
        match older {
            NIL => self.oldest = newer,
            older => self.files[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => self.files[newer as usize].older = older,
        }
    }

    #[cfg(test)]
    pub(crate) fn closed_files(&self) -> impl Iterator<Item = u32> {
        self.closed.iter().copied()
    }

    #[cfg(test)]
    pub(crate) fn stretches(&self, file: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut at = self.files[file as usize].head;
        std::iter::from_fn(move || {
            let Piece { first, len, next } = *self.pieces.get(at as usize)?;
            at = next;
            Some((first, len))
        })
    }

    /// Frees the number of a file that has nothing left and is not listed.
    pub(crate) fn forget(&mut self, file: u32) {
        self.unused.push(file);
    }
}

/// Puts a value where one was given up, or at the end, and returns where.
fn store<T>(values: &mut Vec<T>, unused: &mut Vec<u32>, value: T) -> u32 {
    if let Some(place) = unused.pop() {
        values[place as usize] = value;
        return place;
    }
    values.push(value);
    values.len() as u32 - 1
}
