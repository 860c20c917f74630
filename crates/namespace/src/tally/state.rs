//! A tally as bytes, so that one made elsewhere can be merged here.
//!
//! The same tally is always the same bytes: everything is in the order of its keys, and what holds nothing
//! is left out. Numbers have 7 bits a byte; those with a sign are folded first.

use super::curve::{Amount, Curve};
use super::links::{Key, Linked, Links, Look};
use super::sums::{Owner, Sums};
use super::{Options, Tally, Terms};
use crate::error::{Error, Result};
use crate::rules::{Counted, Exempt, Exemptions, Kept, Rules};

/// What the bytes begin with: what they are, and the version of the form.
const MAGIC: &[u8] = b"trimtab tally 1\n";

impl Tally {
    /// Everything it knows.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(MAGIC.to_vec());
        out.terms(&self.terms);
        out.sums(&self.single);
        out.links(&self.links);
        out.0
    }

    /// The tally that made the bytes.
    pub fn from_bytes(data: &[u8]) -> Result<Self> {
        let read = || -> Option<Self> {
            let mut data = Reader(data.strip_prefix(MAGIC)?);
            let terms = data.terms()?;
            let single = data.sums(&terms)?;
            let links = data.links()?;
            let mut tally = Self::of(terms);
            (tally.single, tally.links) = (single, links);
            data.0.is_empty().then_some(tally)
        };
        let tally = read().ok_or_else(|| Error::Usage("these bytes are no tally".into()))?;
        tally.check()?;
        Ok(tally)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    fn optional(&mut self, number: Option<i64>) {
        self.number(number.is_some().into());
        number.into_iter().for_each(|number| self.signed(number));
    }

    fn length(&mut self, length: usize) {
        self.number(length as u64);
    }

    fn string(&mut self, string: &[u8]) {
        self.length(string.len());
        self.0.extend_from_slice(string);
    }

    fn small(&mut self, numbers: &[u32]) {
        self.length(numbers.len());
        numbers.iter().for_each(|number| self.number((*number).into()));
    }

    fn flags(&mut self, flags: &[bool]) {
        let bits = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(*flag));
        self.number(bits);
    }

    fn terms(&mut self, terms: &Terms) {
        let (rules, options) = (&terms.rules, terms.options);
        let Counted { access, modification, change } = rules.counted;
        let Options { users, projects, osts } = options;
        self.flags(&[access, modification, change, rules.linked, users, projects, osts]);
        self.signed(rules.as_of_s);
        self.signed(rules.old_enough_before_s);
        self.number(rules.minimum_size_bytes);
        let exempt = &rules.exempt;
        self.length(exempt.paths().len());
        exempt.paths().iter().for_each(|path| self.string(path));
        for ids in [exempt.users(), exempt.groups(), exempt.projects()] {
            self.small(ids);
        }
    }

    fn amount(&mut self, amount: Amount) {
        self.number(amount.files);
        self.number(amount.allocated_bytes);
    }

    fn curve(&mut self, curve: &Curve) {
        let buckets = curve.ascending();
        self.length(buckets.len());
        for (bucket, amount) in buckets {
            self.signed(bucket);
            self.amount(amount);
        }
    }

    fn sums(&mut self, sums: &Sums) {
        self.number((sums.every_byte >> 64) as u64);
        self.number(sums.every_byte as u64);
        self.amount(sums.total);
        sums.kept.iter().for_each(|amount| self.amount(*amount));
        self.curve(&sums.hours);
        for owners in [&sums.users, &sums.projects] {
            let present: Vec<_> =
                owners.iter().filter(|(_, owner)| owner.total.files > 0).collect();
            self.length(present.len());
            for (id, owner) in present {
                self.number((*id).into());
                self.amount(owner.total);
                self.curve(&owner.days);
            }
        }
        self.length(sums.osts.len());
        for (ost, curve) in &sums.osts {
            self.number((*ost).into());
            self.curve(curve);
        }
        self.amount(sums.unplaced);
        self.number(sums.future_files);
        self.optional(sums.latest_future_s);
    }

    fn links(&mut self, links: &Links) {
        self.length(links.len());
        for ((device, id), linked) in links.sorted() {
            self.number(*device);
            self.0.extend_from_slice(id);
            self.number(linked.links.into());
            self.number(linked.seen);
            self.number(linked.kept.map_or(0, |kept| kept as u64));
            let look = &linked.look;
            self.optional(look.last_use_s);
            self.number(look.allocated_bytes);
            self.number(look.uid.into());
            self.optional(look.project.map(i64::from));
            self.number(look.osts.is_some().into());
            look.osts.iter().for_each(|osts| self.small(osts));
        }
    }
}

/// What is left to read; `None` where it is not what a writer writes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn optional(&mut self) -> Option<Option<i64>> {
        match self.number()? {
            0 => Some(None),
            1 => Some(Some(self.signed()?)),
            _ => None,
        }
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn bytes(&mut self, length: usize) -> Option<&[u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// As many as a length says; memory is only taken for what is there.
    fn many<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.number()?;
        (0..length).map(|_| each(self)).collect()
    }

    fn terms(&mut self) -> Option<Terms> {
        let bits = self.number()?;
        let flag = |place: u32| bits >> place & 1 == 1;
        let counted = Counted { access: flag(0), modification: flag(1), change: flag(2) };
        let options = Options { users: flag(4), projects: flag(5), osts: flag(6) };
        let (as_of_s, old_enough_before_s) = (self.signed()?, self.signed()?);
        let minimum_size_bytes = self.number()?;
        let path = |data: &mut Self| {
            let length = usize::try_from(data.number()?).ok()?;
            data.bytes(length).map(<[u8]>::to_vec)
        };
        let rules = Rules {
            counted,
            as_of_s,
            old_enough_before_s,
            minimum_size_bytes,
            exempt: Exemptions::new(Exempt {
                paths: self.many(path)?,
                users: self.many(Self::small)?,
                groups: self.many(Self::small)?,
                projects: self.many(Self::small)?,
            }),
            linked: flag(3),
        };
        (bits < 1 << 7).then_some(Terms { rules, options })
    }

    fn amount(&mut self) -> Option<Amount> {
        Some(Amount { files: self.number()?, allocated_bytes: self.number()? })
    }

    fn curve(&mut self, into: &mut Curve) -> Option<()> {
        for (bucket, amount) in self.many(|data| Some((data.signed()?, data.amount()?)))? {
            into.add(bucket, amount);
        }
        Some(())
    }

    fn sums(&mut self, terms: &Terms) -> Option<Sums> {
        let mut sums = Sums::new(terms);
        sums.every_byte = u128::from(self.number()?) << 64 | u128::from(self.number()?);
        sums.total = self.amount()?;
        for amount in &mut sums.kept {
            *amount = self.amount()?;
        }
        self.curve(&mut sums.hours)?;
        for owners in [&mut sums.users, &mut sums.projects] {
            owners.extend(self.many(|data| {
                let (id, mut owner) = (data.small()?, Owner::new(terms));
                owner.total = data.amount()?;
                data.curve(&mut owner.days)?;
                Some((id, owner))
            })?);
        }
        sums.osts.extend(self.many(|data| {
            let (ost, mut curve) = (data.small()?, Sums::new(terms).hours);
            data.curve(&mut curve)?;
            Some((ost, curve))
        })?);
        sums.unplaced = self.amount()?;
        sums.future_files = self.number()?;
        sums.latest_future_s = self.optional()?;
        Some(sums)
    }

    fn links(&mut self) -> Option<Links> {
        let mut links = Links::default();
        for (key, linked) in self.many(Self::link)? {
            links.add(key, linked);
        }
        Some(links)
    }

    fn link(&mut self) -> Option<(Key, Linked)> {
        let key = (self.number()?, self.bytes(16)?.try_into().ok()?);
        let (links, seen, kept) = (self.small()?, self.number()?, self.number()?);
        let kept = if kept == 0 { None } else { Some(Kept::of_number(kept.try_into().ok()?)?) };
        let last_use_s = self.optional()?;
        let (allocated_bytes, uid) = (self.number()?, self.small()?);
        let project = match self.optional()? {
            None => None,
            Some(project) => Some(project.try_into().ok()?),
        };
        let osts = match self.number()? {
            0 => None,
            1 => Some(self.many(Self::small)?.into_boxed_slice()),
            _ => return None,
        };
        let look = Look { last_use_s, allocated_bytes, uid, project, osts };
        Some((key, Linked { links, seen, kept, look }))
    }
}
