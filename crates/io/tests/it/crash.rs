//! What a power loss leaves of a simulated disk: one test a rule, then random histories against an oracle.

use crate::common::disk_with;
use base::Result;
use base::env::Random;
use pando_io::sim::{Event, Fate, Image, ImageKind, SimDisk};
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn now(disk: &SimDisk, fate: Fate) -> Image {
    disk.image(disk.event_count(), fate)
}

fn names(image: &Image) -> Vec<&str> {
    image.names().collect()
}

/// Every image of this moment, many of each kind.
fn all(disk: &SimDisk) -> Vec<Image> {
    disk.images_now(&ImageKind::all(200), &mut Random::seeded(3)).collect()
}

#[test]
fn what_was_synced_is_in_every_image() -> Result<()> {
    let (disk, file) = disk_with(b"synced")?;
    let distinct: HashSet<u64> = all(&disk).iter().map(Image::fingerprint).collect();
    assert_eq!(distinct.len(), 1, "nothing is pending");
    file.write_at(b"S", 0)?;
    for image in all(&disk) {
        let bytes = image.read("f").expect("its name is durable");
        assert!(&bytes[1..] == b"ynced" && matches!(bytes[0], b's' | b'S'), "{}", image.fate());
    }
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&b"synced"[..]));
    assert_eq!(now(&disk, Fate::Everything).read("f").as_deref(), Some(&b"Synced"[..]));
    Ok(())
}

#[test]
fn syncing_a_file_does_not_make_its_name_durable() -> Result<()> {
    let disk = SimDisk::new();
    let file = disk.dir().create("f")?;
    file.write_at(b"synced", 0)?;
    file.sync()?;
    assert_eq!(names(&now(&disk, Fate::Nothing)), [""; 0]);
    assert_eq!(now(&disk, Fate::NamesOnly).read("f").as_deref(), Some(&b"synced"[..]));
    disk.dir().sync()?;
    assert_eq!(names(&now(&disk, Fate::Nothing)), ["f"]);
    Ok(())
}

#[test]
fn syncing_the_directory_does_not_make_bytes_durable() -> Result<()> {
    let disk = SimDisk::new();
    disk.dir().create("f")?.write_at(b"bytes", 0)?;
    disk.dir().sync()?;
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&b""[..]));
    assert_eq!(now(&disk, Fate::NewLengths).read("f").as_deref(), Some(&[0; 5][..]));
    assert_eq!(now(&disk, Fate::Everything).read("f").as_deref(), Some(&b"bytes"[..]));
    Ok(())
}

#[test]
fn a_rename_is_lost_or_kept_whole() -> Result<()> {
    let (disk, _file) = disk_with(b"one")?;
    disk.dir().create("g")?.write_at(b"two", 0)?;
    disk.dir().open("g")?.sync()?;
    disk.dir().sync()?;
    disk.dir().rename("g", "f")?;
    assert_eq!(names(&now(&disk, Fate::Nothing)), ["f", "g"]);
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&b"one"[..]));
    assert_eq!(names(&now(&disk, Fate::Everything)), ["f"]);
    assert_eq!(now(&disk, Fate::Everything).read("f").as_deref(), Some(&b"two"[..]));
    for image in all(&disk) {
        assert!(image.read("f").is_some(), "{}: neither of the two", image.fate());
    }
    disk.dir().sync()?;
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&b"two"[..]));
    Ok(())
}

#[test]
fn removes_and_creates_are_lost_one_by_one() -> Result<()> {
    let (disk, _file) = disk_with(b"old")?;
    disk.dir().remove("f")?;
    disk.dir().create("f")?.write_at(b"new", 0)?;
    disk.dir().open("f")?.sync()?;
    disk.dir().create("g")?;
    let left: BTreeSet<_> =
        all(&disk).iter().map(|image| (image.read("f"), image.read("g").is_some())).collect();
    let of_f: BTreeSet<_> = left.iter().map(|(f, _)| f.clone()).collect();
    assert_eq!(of_f, BTreeSet::from([None, Some(b"old".to_vec()), Some(b"new".to_vec())]));
    assert_eq!(left.len(), 6, "g is there or not, whatever became of f");
    Ok(())
}

#[test]
fn what_happens_to_a_file_whose_create_was_lost_is_lost() -> Result<()> {
    let (disk, _file) = disk_with(b"old")?;
    disk.dir().create("t")?.write_at(b"new", 0)?;
    disk.dir().open("t")?.sync()?;
    disk.dir().rename("t", "f")?;
    let image = now(&disk, Fate::DropOne(0));
    assert_eq!(names(&image), ["f"]);
    assert_eq!(image.read("f").as_deref(), Some(&b"old"[..]));
    Ok(())
}

#[test]
fn writes_are_reordered() -> Result<()> {
    let (disk, file) = disk_with(&[0; 3])?;
    for at in 0..3 {
        file.write_at(b"x", at)?;
    }
    let subsets: BTreeSet<_> = all(&disk).iter().map(|image| image.read("f")).collect();
    assert_eq!(subsets.len(), 8, "every subset of three writes");
    assert_eq!(now(&disk, Fate::Prefix(2)).read("f").as_deref(), Some(&b"xx\0"[..]));
    assert_eq!(now(&disk, Fate::KeepOne(2)).read("f").as_deref(), Some(&b"\0\0x"[..]));
    assert_eq!(now(&disk, Fate::DropOne(0)).read("f").as_deref(), Some(&b"\0xx"[..]));
    Ok(())
}

#[test]
fn a_write_tears_at_sectors_only() -> Result<()> {
    let (disk, file) = disk_with(&[0; 16_384])?;
    file.write_at(&[1; 10_000], 1000)?;
    let (mut cuts, mut scattered) = (HashSet::new(), 0);
    for image in all(&disk) {
        let bytes = image.read("f").expect("its name is durable");
        let sectors: Vec<&[u8]> = bytes[1000..11_000].split_at(24).1.chunks(512).collect();
        assert!(
            sectors.iter().all(|sector| sector.iter().all(|byte| byte == &sector[0])),
            "{}",
            image.fate()
        );
        let changes = sectors.windows(2).filter(|pair| pair[0][0] != pair[1][0]).count();
        scattered += usize::from(changes > 2);
        if let Fate::Torn { kept, sector_bytes: 512, .. } = image.fate() {
            assert!(changes <= 1);
            cuts.insert(kept.clone());
        }
    }
    assert_eq!(cuts.len(), 2 * 20, "21 sectors, cut at 20 places, either side kept");
    assert!(scattered > 20, "{scattered} images with holes in the write");
    let fate = Fate::Torn { write: 0, sector_bytes: 4096, kept: 1..2 };
    let bytes = now(&disk, fate).read("f").expect("its name is durable");
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == u8::from((4096..8192).contains(&at))));
    Ok(())
}

#[test]
fn lengths_are_old_new_or_between() -> Result<()> {
    let (disk, file) = disk_with(&[1; 1000])?;
    file.write_at(&[2; 1000], 1000)?;
    file.set_len(3000)?;
    let lengths: BTreeSet<usize> =
        all(&disk).iter().filter_map(|image| image.read("f")).map(|b| b.len()).collect();
    assert!(lengths.contains(&1000) && lengths.contains(&2000) && lengths.contains(&3000), "{lengths:?}");
    assert!(lengths.len() > 50 && lengths.first() == Some(&1000) && lengths.last() == Some(&3000));
    assert_eq!(now(&disk, Fate::OldLengths).read("f").as_deref(), Some(&[1; 1000][..]));
    // The length without the bytes, and the second change without the first: zeros in the gap.
    let zeros = now(&disk, Fate::NewLengths).read("f").expect("its name is durable");
    assert!(zeros[1000..] == [0; 2000]);
    let gap = now(&disk, Fate::DropOne(0)).read("f").expect("its name is durable");
    assert!(gap.len() == 3000 && gap[1000..] == [0; 2000]);
    Ok(())
}

#[test]
fn a_cut_and_a_discard_may_be_lost() -> Result<()> {
    let (disk, file) = disk_with(&[1; 16_384])?;
    file.discard(0, 8192)?;
    file.set_len(12_288)?;
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&[1; 16_384][..]));
    let cut = now(&disk, Fate::KeepOne(1)).read("f").expect("its name is durable");
    assert_eq!(cut, [1; 12_288]);
    file.sync()?;
    let bytes = now(&disk, Fate::Nothing).read("f").expect("its name is durable");
    assert!(bytes.len() == 12_288 && bytes[..8192] == [0; 8192] && bytes[8192..] == [1; 4096]);
    Ok(())
}

#[test]
fn stores_to_a_mapping_are_buffered_writes() -> Result<()> {
    let (disk, file) = disk_with(&[0; 4096])?;
    let map = file.map(4096)?.expect("the simulated disk maps");
    map.write(10, b"stored")?;
    let (_, events) = disk.events();
    assert!(matches!(events.last(), Some(Event::Write { payload, .. }) if payload.offset() == 10));
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&[0; 4096][..]));
    file.sync()?;
    assert_eq!(&now(&disk, Fate::Nothing).read("f").expect("its name is durable")[10..16], b"stored");
    Ok(())
}

#[test]
fn a_store_where_nothing_was_written_is_a_bus_error() -> Result<()> {
    let (disk, file) = disk_with(&[1; 4096])?;
    file.set_len(8192)?;
    let map = file.map(8192)?.expect("the simulated disk maps");
    map.write(0, b"written once")?;
    let store = |at| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| map.write(at, b"x").unwrap()));
    assert!(store(4096).is_err(), "only reserved");
    file.set_len(100)?;
    assert!(store(200).is_err(), "cut off");
    assert!(store(50).is_ok());
    assert_eq!(disk.dir().open("f")?.len()?, 100);
    Ok(())
}

#[test]
fn allocated_bytes_may_be_stored_to_and_their_room_is_lost_or_kept_whole() -> Result<()> {
    let (disk, file) = disk_with(&[1; 4096])?;
    assert!(file.allocate(12_288)?);
    let map = file.map(12_288)?.expect("the simulated disk maps");
    map.write(8192, b"x")?;
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&[1; 4096][..]));
    let allocated = now(&disk, Fate::KeepOne(0)).read("f").expect("its name is durable");
    assert!(allocated.len() == 12_288 && allocated[4096..] == [0; 8192]);
    file.sync()?;
    let kept = now(&disk, Fate::Nothing);
    assert_eq!(kept.read("f").expect("its name is durable")[8192], b'x');
    let again = kept.restore();
    assert_eq!(again.used_bytes(), 12_288, "also where nothing was written");
    Ok(())
}

#[test]
fn a_restored_image_is_durable_unlocked_and_apart() -> Result<()> {
    let (disk, file) = disk_with(b"base")?;
    let _held = disk.dir().lock("lock")?;
    file.write_at(b"more", 4)?;
    let restored = now(&disk, Fate::Everything).restore();
    let _lock = restored.dir().lock("lock")?;
    assert_eq!(now(&restored, Fate::Nothing).read("f").as_deref(), Some(&b"basemore"[..]));
    restored.dir().open("f")?.write_at(b"else", 0)?;
    restored.dir().create("g")?;
    assert_eq!(now(&restored, Fate::Everything).read("f").as_deref(), Some(&b"elsemore"[..]));
    assert_eq!(now(&disk, Fate::Everything).read("f").as_deref(), Some(&b"basemore"[..]));
    Ok(())
}

#[test]
fn a_killed_process_loses_no_byte_and_makes_none_durable() -> Result<()> {
    let (disk, file) = disk_with(b"base")?;
    let _held = disk.dir().lock("lock")?;
    file.write_at(b"more", 4)?;
    let next = disk.after_kill();
    let _lock = next.dir().lock("lock")?;
    let mut bytes = [0; 8];
    next.dir().open("f")?.read_exact_at(&mut bytes, 0)?;
    assert_eq!(&bytes, b"basemore");
    assert_eq!(now(&next, Fate::Nothing).read("f").as_deref(), Some(&b"base"[..]));
    next.dir().open("f")?.sync()?;
    assert_eq!(now(&next, Fate::Nothing).read("f").as_deref(), Some(&b"basemore"[..]));
    assert_eq!(now(&disk, Fate::Nothing).read("f").as_deref(), Some(&b"base"[..]));
    Ok(())
}

#[test]
fn marks_are_events() -> Result<()> {
    let (disk, file) = disk_with(b"base")?;
    let at = disk.mark("before");
    file.write_at(b"more", 4)?;
    assert!(matches!(&disk.events().1[at], Event::Mark(label) if &**label == "before"));
    assert_eq!(disk.image(at, Fate::Everything).read("f").as_deref(), Some(&b"base"[..]));
    assert_eq!(disk.event_count(), at + 2);
    disk.keep_history(false);
    file.sync()?;
    assert!(disk.events().1.is_empty() && disk.events().0 == at + 2);
    assert_eq!(all(&disk).len(), all(&disk).len());
    Ok(())
}

#[test]
fn samples_are_bounded() -> Result<()> {
    let (disk, file) = disk_with(&[0; 8192])?;
    for at in 0..50 {
        file.write_at(&[1; 4096], at * 64)?;
    }
    for most in [0, 1, 7] {
        let images: Vec<Image> = disk.images_now(&ImageKind::all(most), &mut Random::seeded(1)).collect();
        let prefixes = images.iter().filter(|image| matches!(image.fate(), Fate::Prefix(_))).count();
        let torn = images.iter().filter(|image| matches!(image.fate(), Fate::Torn { .. })).count();
        assert_eq!(prefixes, most);
        assert!(torn <= 2 * most && images.len() <= 4 + 7 * most);
        let labels: HashSet<String> = images.iter().map(|image| image.fate().to_string()).collect();
        assert_eq!(labels.len(), images.len(), "no fate twice");
    }
    Ok(())
}

/// What may be of one file, by a way of counting that shares nothing with the disk's: for each byte the values that
/// a crash may leave.
#[derive(Clone, Default)]
struct Oracle {
    live: Vec<u8>,
    may_be: Vec<BTreeSet<u8>>,
    abandoned: Vec<bool>,
    lengths: BTreeSet<usize>,
    /// What the last sync made durable, unless an earlier one failed.
    settled: Option<Vec<u8>>,
}

const LONGEST: usize = 3000;

impl Oracle {
    fn new() -> Oracle {
        let may_be = vec![BTreeSet::from([0]); LONGEST];
        Oracle {
            live: vec![],
            may_be,
            abandoned: vec![false; LONGEST],
            lengths: BTreeSet::from([0]),
            settled: Some(vec![]),
        }
    }

    fn write(&mut self, byte: u8, offset: usize, len: usize) {
        self.live.resize(self.live.len().max(offset + len), 0);
        self.live[offset..offset + len].fill(byte);
        self.lengths.insert(self.live.len());
        for at in offset..offset + len {
            self.may_be[at].insert(byte);
            self.abandoned[at] = false;
        }
    }

    fn resize(&mut self, len: usize) {
        self.live.resize(len, 0);
        self.lengths.insert(len);
        for at in len..LONGEST {
            self.may_be[at].insert(0);
            self.abandoned[at] = false;
        }
    }

    fn sync(&mut self) {
        self.lengths = BTreeSet::from([self.live.len()]);
        for at in (0..LONGEST).filter(|&at| !self.abandoned[at]) {
            self.may_be[at] = BTreeSet::from([self.live.get(at).copied().unwrap_or(0)]);
        }
        self.settled = (!self.abandoned.contains(&true)).then(|| self.live.clone());
    }

    fn fail_sync(&mut self) {
        for at in 0..LONGEST {
            self.abandoned[at] |= self.may_be[at].len() > 1;
        }
    }

    fn check(&self, image: &Image, name: &str) {
        let bytes = image.read(name).expect("its name is durable");
        let (shortest, longest) = (self.lengths.first().unwrap(), self.lengths.last().unwrap());
        assert!((shortest..=longest).contains(&&bytes.len()), "{}: length {}", image.fate(), bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            assert!(self.may_be[at].contains(byte), "{}: byte {at} of {name} is {byte}", image.fate());
        }
        match image.fate() {
            Fate::Everything => assert_eq!(bytes, self.live, "everything is what the process sees"),
            Fate::Nothing => assert_eq!(&bytes, self.settled.as_ref().unwrap_or(&bytes)),
            _ => {}
        }
    }
}

#[test]
fn random_histories_leave_what_an_oracle_allows() -> Result<()> {
    let mut distinct = HashSet::new();
    for seed in 0..12 {
        let mut random = Random::seeded(seed);
        let disk = SimDisk::new();
        let mut files = BTreeMap::new();
        for name in ["a", "b"] {
            files.insert(name, (disk.dir().create(name)?, Oracle::new()));
        }
        disk.dir().sync()?;
        for step in 1..60_u8 {
            let (file, oracle) = files.get_mut(if random.chance(1, 2) { "a" } else { "b" }).unwrap();
            let offset = random.below(LONGEST as u64 / 2) as usize;
            match random.below(10) {
                0 | 1 => {
                    file.sync()?;
                    oracle.sync();
                }
                2 => {
                    use pando_io::sim::{CallKind, Fault, FaultError};
                    disk.inject(Fault { call: CallKind::Sync, nth: 1, sticky: false, error: FaultError::Io });
                    file.sync().expect_err("injected");
                    oracle.fail_sync();
                }
                3 => {
                    file.set_len(offset as u64)?;
                    oracle.resize(offset);
                }
                _ => {
                    let len = 1 + random.below(LONGEST as u64 / 2 - 1) as usize;
                    file.write_at(&vec![step; len], offset as u64)?;
                    oracle.write(step, offset, len);
                }
            }
            for image in disk.images_now(&ImageKind::all(4), &mut random) {
                files.iter().for_each(|(name, (_, oracle))| oracle.check(&image, name));
                distinct.insert(image.fingerprint());
            }
        }
    }
    assert!(distinct.len() > 5_000, "{} distinct images", distinct.len());
    Ok(())
}

#[test]
fn images_of_the_past_are_those_that_were_taken_then() -> Result<()> {
    let disk = SimDisk::new();
    let dir = disk.dir();
    let mut random = Random::seeded(5);
    let mut taken = Vec::new();
    for step in 0..400 {
        let name = format!("f{}", random.below(3));
        let file = dir.open(&name).or_else(|_| dir.create(&name))?;
        match random.below(12) {
            0 => file.sync()?,
            1 => dir.sync()?,
            2 => dir.remove(&name)?,
            3 => dir.rename(&name, "f0")?,
            4 => file.discard(random.below(5_000), 5_000)?,
            5 => file.set_len(random.below(20_000))?,
            _ => file.write_at(&vec![step as u8; 1 + random.below(9_000) as usize], random.below(20_000))?,
        }
        let kinds = ImageKind::all(2);
        let prints: Vec<u64> =
            disk.images_now(&kinds, &mut Random::seeded(step)).map(|image| image.fingerprint()).collect();
        taken.push((disk.event_count(), step, prints));
    }
    for (at, seed, then) in taken {
        let again: Vec<Image> = disk.images(at, &ImageKind::all(2), &mut Random::seeded(seed)).collect();
        assert_eq!(again.iter().map(Image::fingerprint).collect::<Vec<_>>(), then, "after {at} events");
        let last = again.last().expect("there is always an image");
        assert_eq!(disk.image(last.event(), last.fate().clone()).fingerprint(), last.fingerprint());
        assert_eq!(now(&last.restore(), Fate::Nothing).fingerprint(), last.fingerprint());
    }
    Ok(())
}
