//! Databases of GUFI, read page by page: one `db.db` a directory, with its files in the table `entries`
//! and the directory itself in `summary`.
//!
//! An index has a database for each directory, often with fewer files than the database has pages. `SQLite`
//! takes 240 µs to open one and to parse its twenty tables and views; what is needed is two b-trees of
//! tables, read here in the order of their rows. Nothing of the file is run or trusted: no SQL, no view,
//! and every number that points somewhere is checked.
//!
//! ```text
//!   header (100 bytes) ─▶ page 1: sqlite_schema ─▶ root page of a table
//!                                                     interior page: a child a cell, one on the right
//!                                                     leaf page: rows; a long one goes on in a chain
//! ```
//!
//! Sources: "Database File Format" of `SQLite` 3; `include/dbutils.h`, `src/dbutils.c` and `src/descend.c`
//! of GUFI at 09109d1b (2026-08) and its tags since 0.4.0.

use std::sync::Arc;

use crate::columns::{Column, Values, Views};

const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER: usize = 100;
const LEAF: u8 = 0x0d;
const INTERIOR: u8 = 0x05;
const DEPTH_MOST: usize = 20;
const NS_PER_S: i64 = 1_000_000_000;

/// Why a database, or a row of it, cannot be taken.
type Damage = &'static str;
type Read<T> = std::result::Result<T, Damage>;

const DAMAGED: Damage = "its database is damaged or was being written";

/// The rows of some directories, a column at a time.
#[derive(Debug, Default)]
pub struct Rows {
    /// How many directories could be read.
    pub directories: u64,
    parent: Views,
    name: Views,
    id: Views,
    nlink: Vec<u32>,
    uid: Vec<u32>,
    gid: Vec<u32>,
    size: Vec<u64>,
    allocated: Vec<u64>,
    /// Access, modification, change and birth.
    times: [Vec<i64>; 4],
    kind: Views,
    /// What was refused: the directory's path, the name where it is of one row, why.
    pub refused: Vec<(Vec<u8>, Vec<u8>, Damage)>,
    /// How the tables `summary` and `entries` of the last database were created.
    known: [Known; 2],
}

/// A statement that creates a table, and the columns in it: a tree has few, and parsing one of seventy
/// columns takes as long as reading thirty rows.
#[derive(Debug, Default)]
struct Known {
    sql: Vec<u8>,
    columns: Arc<[String]>,
}

impl Rows {
    /// Adds the rows of a directory: its files and links, and itself unless it is the root.
    ///
    /// The name of a directory is that of the file system, which is exact; `path` is empty for the root.
    pub fn add(&mut self, path: &[u8], database: &[u8]) {
        if let Err(damage) = self.directory(path, database) {
            self.refused.push((path.to_vec(), Vec::new(), damage));
        }
    }

    /// Returns the columns of the index, and how many rows they have.
    #[must_use]
    pub fn columns(self) -> (Vec<Column>, usize) {
        let rows = self.uid.len();
        // No file system that tells a birth is as old as 1970: 0 is unknown.
        let born = self.times[3].iter().map(|&time| time != 0).collect();
        let times = ["atime_ns", "mtime_ns", "ctime_ns", "btime_ns"].into_iter().zip(self.times);
        let mut columns = vec![
            Column::new("parent", Values::Bytes(self.parent)),
            Column::new("name", Values::Bytes(self.name)),
            Column::new("id", Values::Bytes(self.id)),
            Column::new("nlink", Values::Small(self.nlink)),
            Column::new("uid", Values::Small(self.uid)),
            Column::new("gid", Values::Small(self.gid)),
            Column::new("size_bytes", Values::Unsigned(self.size)),
            Column::new("allocated_bytes", Values::Unsigned(self.allocated)),
            Column::new("type", Values::Text(self.kind)),
        ];
        columns.extend(times.map(|(name, times)| Column::new(name, Values::Signed(times))));
        if let Some(birth) = columns.last_mut() {
            birth.known = born;
        }
        (columns, rows)
    }

    fn directory(&mut self, path: &[u8], data: &[u8]) -> Read<()> {
        let pages = Pages::new(data)?;
        let [summary, entries] = pages.tables(&mut self.known)?;
        let (itself, counted) = itself(&pages, &summary)?;
        // Of both tables all is read before a row is taken: a damage leaves no part of a directory.
        let places = Places::of(&entries)?;
        let mut found: Vec<(Vec<u8>, Stat)> = Vec::new();
        let mut refused = Vec::new();
        let mut many: u64 = 0;
        pages.each_row(entries.root, |record| {
            many += 1;
            let name = record.bytes(places.name).unwrap_or_default();
            match plain_name(name).and_then(|plain| Ok((plain, places.stat(record)?))) {
                Ok(row) => found.push(row),
                Err(damage) => refused.push((path.to_vec(), name.to_vec(), damage)),
            }
            Ok(())
        })?;
        let own = path.iter().rposition(|&byte| byte == b'/');
        if !path.is_empty() {
            let (parent, name) =
                own.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
            let parent = self.parent.keep(parent);
            self.push(parent, name, &itself);
        }
        self.directories += 1;
        let parent = self.parent.keep(path);
        for (name, stat) in found {
            self.push(parent, &name, &stat);
        }
        self.refused.append(&mut refused);
        if counted.is_some_and(|counted| counted != many) {
            let damage = "its summary counts other files and links than its table has";
            self.refused.push((path.to_vec(), Vec::new(), damage));
        }
        Ok(())
    }

    fn push(&mut self, parent: u128, name: &[u8], stat: &Stat) {
        self.parent.views.push(parent);
        self.name.push(name);
        self.id.push(&u128::from(stat.inode).to_be_bytes());
        self.nlink.push(stat.nlink);
        self.uid.push(stat.uid);
        self.gid.push(stat.gid);
        self.size.push(stat.size);
        self.allocated.push(stat.allocated);
        for (column, time) in self.times.iter_mut().zip(stat.times_s) {
            column.push(time.saturating_mul(NS_PER_S));
        }
        self.kind.push(&[stat.kind]);
    }
}

#[derive(Clone, Debug)]
struct Stat {
    inode: u64,
    nlink: u32,
    uid: u32,
    gid: u32,
    size: u64,
    allocated: u64,
    times_s: [i64; 4],
    kind: u8,
}

/// Returns the row of a directory itself, and how many files and links its summary counts.
fn itself(pages: &Pages<'_>, table: &Table) -> Read<(Stat, Option<u64>)> {
    let places = Places::of(table)?;
    let (rectype, isroot) = (table.place("rectype"), table.place("isroot"));
    let totals = [table.place("totfiles"), table.place("totlinks")];
    let mut own: Option<(Stat, Option<u64>)> = None;
    pages.each_row(table.root, |record| {
        let is =
            |place: Option<usize>, value| place.is_none_or(|at| record.number(at) == Ok(value));
        // Rolled up, it has the directories beneath as well; 1 and 2 are sums by user and group.
        if !is(rectype, 0) || !is(isroot, 1) {
            return Ok(());
        }
        if own.is_some() {
            return Err("its summary is of more than one directory");
        }
        let counted = totals.map(|place| u64::try_from(record.number(place?).ok()?).ok());
        let counted =
            counted[0].zip(counted[1]).and_then(|(files, links)| files.checked_add(links));
        own = Some((places.stat(record)?, counted));
        Ok(())
    })?;
    own.ok_or("its database has no summary: it is of no directory, or was never finished")
}

/// Returns a name as the file system has it: GUFI writes each quote twice.
fn plain_name(stored: &[u8]) -> Read<Vec<u8>> {
    let mut name = Vec::with_capacity(stored.len());
    let mut rest = stored;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\'') {
        if rest.get(at + 1) != Some(&b'\'') {
            return Err("a quote in its name stands alone: GUFI writes two");
        }
        name.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 2..];
    }
    name.extend_from_slice(rest);
    let odd = name.iter().any(|&byte| byte == 0 || byte == b'/');
    if odd || matches!(name.as_slice(), b"" | b"." | b"..") {
        return Err("its name cannot be one");
    }
    Ok(name)
}

/// Where the columns of a table are that an index needs.
struct Places {
    name: usize,
    kind: Option<usize>,
    inode: usize,
    mode: usize,
    nlink: usize,
    uid: usize,
    gid: usize,
    size: usize,
    blocks: usize,
    times: [usize; 3],
    birth: Option<usize>,
}

impl Places {
    fn of(table: &Table) -> Read<Self> {
        let place = |name| table.place(name).ok_or("a table of its database lacks a column");
        Ok(Self {
            name: place("name")?,
            kind: table.place("type"),
            inode: place("inode")?,
            mode: place("mode")?,
            nlink: place("nlink")?,
            uid: place("uid")?,
            gid: place("gid")?,
            size: place("size")?,
            blocks: place("blocks")?,
            times: [place("atime")?, place("mtime")?, place("ctime")?],
            birth: table.place("crtime"),
        })
    }

    fn stat(&self, record: &Record<'_>) -> Read<Stat> {
        let whole = |place, damage: Damage| record.number(place).map_err(|_| damage);
        let small = |place, damage| u32::try_from(whole(place, damage)?).map_err(|_| damage);
        let large = |place, damage| u64::try_from(whole(place, damage)?).map_err(|_| damage);
        let mode = small(self.mode, "mode: not what it should be")?;
        let blocks = large(self.blocks, "blocks: not what they should be")?;
        let time = |place| whole(place, "a time: not what it should be");
        let birth = self.birth.map_or(0, |place| record.number(place).unwrap_or(0));
        let letter = self.kind.and_then(|place| record.bytes(place)?.first().copied());
        Ok(Stat {
            inode: record.inode(self.inode).ok_or("inode: not what it should be")?,
            nlink: small(self.nlink, "nlink: not what it should be")?,
            uid: small(self.uid, "uid: not what it should be")?,
            gid: small(self.gid, "gid: not what it should be")?,
            size: large(self.size, "size: not what it should be")?,
            allocated: blocks.checked_mul(512).ok_or("blocks: not what they should be")?,
            times_s: [time(self.times[0])?, time(self.times[1])?, time(self.times[2])?, birth],
            kind: kind_of(mode, letter),
        })
    }
}

fn kind_of(mode: u32, letter: Option<u8>) -> u8 {
    match mode & libc::S_IFMT {
        libc::S_IFREG => b'f',
        libc::S_IFDIR => b'd',
        libc::S_IFLNK => b'l',
        libc::S_IFIFO => b'p',
        libc::S_IFSOCK => b's',
        libc::S_IFBLK => b'b',
        libc::S_IFCHR => b'c',
        _ => letter.filter(|letter| b"fdlpsbc".contains(letter)).unwrap_or(b'?'),
    }
}

/// A table: where its b-tree begins, and its columns.
struct Table {
    root: u32,
    columns: Arc<[String]>,
}

impl Table {
    fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// Returns the names of columns from what created a table.
fn columns_of(sql: &[u8]) -> Option<Vec<String>> {
    let text = String::from_utf8_lossy(sql);
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let mut depth = 0_u32;
    let parts = text.get(open + 1..close)?.split(|letter: char| {
        depth = match letter {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        letter == ',' && depth == 0
    });
    let names = parts.map(|part| {
        let name = part.split_whitespace().next().unwrap_or_default();
        name.trim_matches(['"', '`', '[', ']', '\'']).to_ascii_lowercase()
    });
    let plain = ["primary", "unique", "check", "foreign", "constraint"];
    Some(names.filter(|name| !plain.contains(&name.as_str())).collect())
}

/// The pages of a database.
struct Pages<'a> {
    data: &'a [u8],
    size: usize,
    usable: usize,
    many: usize,
}

impl<'a> Pages<'a> {
    fn new(data: &'a [u8]) -> Read<Self> {
        let head = data.get(..HEADER).ok_or("it is no database of SQLite")?;
        if !head.starts_with(MAGIC) {
            return Err("it is no database of SQLite");
        }
        let size = match usize::from(u16::from_be_bytes([head[16], head[17]])) {
            1 => 65_536,
            size => size,
        };
        let usable = size.saturating_sub(usize::from(head[20]));
        if !size.is_power_of_two() || size < 512 || usable < 480 {
            return Err(DAMAGED);
        }
        if u32::from_be_bytes([head[56], head[57], head[58], head[59]]) != 1 {
            return Err("its database is not in UTF-8, as those of GUFI are");
        }
        let many = u32::from_be_bytes([head[28], head[29], head[30], head[31]]) as usize;
        if many == 0 || many.checked_mul(size).is_none_or(|bytes| bytes > data.len()) {
            return Err(DAMAGED);
        }
        Ok(Self { data, size, usable, many })
    }

    fn page(&self, number: u32) -> Read<&'a [u8]> {
        let number = number as usize;
        if number == 0 || number > self.many {
            return Err(DAMAGED);
        }
        Ok(&self.data[(number - 1) * self.size..][..self.usable])
    }

    /// Returns the tables `summary` and `entries`.
    fn tables(&self, known: &mut [Known; 2]) -> Read<[Table; 2]> {
        let mut tables = [None, None];
        self.each_row(1, |record| {
            let at = match (record.bytes(0), record.bytes(1)) {
                (Some(b"table"), Some(b"summary")) => 0,
                (Some(b"table"), Some(b"entries")) => 1,
                _ => return Ok(()),
            };
            let root = u32::try_from(record.number(3)?).map_err(|_| DAMAGED)?;
            let sql = record.bytes(4).ok_or(DAMAGED)?;
            if known[at].sql != sql {
                let columns = columns_of(sql).ok_or(DAMAGED)?.into();
                known[at] = Known { sql: sql.to_vec(), columns };
            }
            tables[at] = Some(Table { root, columns: Arc::clone(&known[at].columns) });
            Ok(())
        })?;
        let [summary, entries] = tables;
        summary.zip(entries).map(Into::into).ok_or("it is no database of GUFI")
    }

    /// Calls a function with each row of the table whose b-tree begins at a page.
    fn each_row(&self, root: u32, mut row: impl FnMut(&Record<'_>) -> Read<()>) -> Read<()> {
        let mut left = self.many; // a page is in one b-tree, and there once
        let mut stack = vec![(root, 0_usize)];
        let (mut long, mut cells_of_row) = (Vec::new(), Vec::new());
        while let Some((number, depth)) = stack.pop() {
            left = left.checked_sub(1).ok_or(DAMAGED)?;
            let page = self.page(number)?;
            let begin = if number == 1 { HEADER } else { 0 };
            let cells = usize::from(two(page, begin + 3)?);
            match *page.get(begin).ok_or(DAMAGED)? {
                LEAF => {
                    for cell in 0..cells {
                        let at = usize::from(two(page, begin + 8 + 2 * cell)?);
                        let payload = self.payload(page, at, &mut long)?;
                        row(&Record::parse(payload, &mut cells_of_row)?)?;
                    }
                }
                INTERIOR if depth < DEPTH_MOST => {
                    stack.push((four(page, begin + 8)?, depth + 1));
                    for cell in (0..cells).rev() {
                        let at = usize::from(two(page, begin + 12 + 2 * cell)?);
                        stack.push((four(page, at)?, depth + 1));
                    }
                }
                _ => return Err(DAMAGED),
            }
        }
        Ok(())
    }

    /// Returns the record of a cell, put together in `long` where it goes on in other pages.
    fn payload<'b>(&self, page: &'a [u8], at: usize, long: &'b mut Vec<u8>) -> Read<&'b [u8]>
    where
        'a: 'b,
    {
        let (size, at) = varint(page, at)?;
        let (_, at) = varint(page, at)?;
        let size = usize::try_from(size).map_err(|_| DAMAGED)?;
        let whole = self.usable - 35;
        if size <= whole {
            return page.get(at..at + size).ok_or(DAMAGED);
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let local = least + (size - least) % (self.usable - 4);
        let local = if local <= whole { local } else { least };
        if size > self.data.len() {
            return Err(DAMAGED);
        }
        long.clear();
        long.extend_from_slice(page.get(at..at + local).ok_or(DAMAGED)?);
        let mut next = four(page, at + local)?;
        while long.len() < size {
            let page = self.page(next)?;
            let part = (size - long.len()).min(self.usable - 4);
            long.extend_from_slice(page.get(4..4 + part).ok_or(DAMAGED)?);
            next = four(page, 0)?;
        }
        Ok(long)
    }
}

fn two(page: &[u8], at: usize) -> Read<u16> {
    let bytes = page.get(at..at + 2).ok_or(DAMAGED)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn four(page: &[u8], at: usize) -> Read<u32> {
    let bytes = page.get(at..at + 4).ok_or(DAMAGED)?;
    Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Returns a number of up to nine bytes, and where the next thing begins.
fn varint(data: &[u8], at: usize) -> Read<(u64, usize)> {
    let mut value = 0_u64;
    for place in 0..9 {
        let byte = *data.get(at + place).ok_or(DAMAGED)?;
        if place == 8 {
            return Ok(((value << 8) | u64::from(byte), at + 9));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, at + place + 1));
        }
    }
    Err(DAMAGED)
}

const COLUMNS_MOST: usize = 100;

/// A row: of each column its serial type and where its value is.
struct Record<'a> {
    data: &'a [u8],
    cells: &'a [Cell],
}

type Cell = (u64, u32, u32);

impl<'a> Record<'a> {
    fn parse(data: &'a [u8], cells: &'a mut Vec<Cell>) -> Read<Self> {
        let (head, mut at) = varint(data, 0)?;
        let head = usize::try_from(head).map_err(|_| DAMAGED)?;
        if head > data.len() || u32::try_from(data.len()).is_err() {
            return Err(DAMAGED);
        }
        cells.clear();
        let mut place = head;
        while at < head {
            let (serial, next) = varint(data, at)?;
            at = next;
            let size = match serial {
                0 | 8 | 9 => 0,
                1..=4 => serial,
                5 => 6,
                6 | 7 => 8,
                10 | 11 => return Err(DAMAGED),
                _ => (serial - 12) / 2,
            };
            let end = usize::try_from(size).ok().and_then(|size| place.checked_add(size));
            let end = end.filter(|&end| end <= data.len()).ok_or(DAMAGED)?;
            if cells.len() == COLUMNS_MOST {
                return Err(DAMAGED);
            }
            cells.push((serial, place as u32, end as u32));
            place = end;
        }
        Ok(Self { data, cells })
    }

    fn cell(&self, column: usize) -> Option<(u64, &'a [u8])> {
        let (serial, begin, end) = *self.cells.get(column)?;
        Some((serial, &self.data[begin as usize..end as usize]))
    }

    /// Returns text or bytes.
    fn bytes(&self, column: usize) -> Option<&'a [u8]> {
        let (serial, value) = self.cell(column)?;
        (serial >= 12).then_some(value)
    }

    fn number(&self, column: usize) -> Read<i64> {
        match self.cell(column) {
            Some((8, _)) => Ok(0),
            Some((9, _)) => Ok(1),
            Some((1..=6, value)) => {
                let first = if value[0] & 0x80 == 0 { 0 } else { -1 };
                Ok(value.iter().fold(first, |sum, &byte| (sum << 8) | i64::from(byte)))
            }
            _ => Err(DAMAGED),
        }
    }

    /// Returns an inode number: text since 0.6.5, before it a number whose bits were a sign's too.
    fn inode(&self, column: usize) -> Option<u64> {
        match self.bytes(column) {
            Some(digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                std::str::from_utf8(digits).ok()?.parse().ok()
            }
            Some(_) => None,
            None => self.number(column).ok().map(|bits| u64::from_ne_bytes(bits.to_ne_bytes())),
        }
    }
}
