//! Content of the disk after a power loss.

use std::collections::BTreeMap;

use crate::powerloss::operation::{FileId, Operation, rename};

/// Atomic unit of a disk write, in bytes.
const SECTOR_BYTES: usize = 512;

/// Fate of operations that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// All are lost.
    Lost,
    /// All are kept, as after the death of the process alone.
    Kept,
    /// Any part is kept, drawn from this seed: the first of the name changes, some writes of each file, and some
    /// sectors of each write.
    Drawn(u64),
}

/// Content of the disk, and operations that are not synced yet.
#[derive(Default)]
pub(crate) struct Replay<'a> {
    names: BTreeMap<String, FileId>,
    contents: BTreeMap<FileId, Vec<u8>>,
    names_under_way: Vec<&'a Operation>,
    under_way: BTreeMap<FileId, Vec<&'a Operation>>,
}

impl<'a> Replay<'a> {
    pub(crate) fn take(&mut self, operation: &'a Operation) {
        match operation {
            Operation::Write { file, .. } | Operation::SetLength { file, .. } => {
                self.under_way.entry(*file).or_default().push(operation);
            }
            Operation::Sync { file } => {
                let content = self.contents.entry(*file).or_default();
                for operation in self.under_way.remove(file).unwrap_or_default() {
                    apply(content, operation, &mut || true);
                }
            }
            Operation::Name { .. } => self.names_under_way.push(operation),
            Operation::SyncFolder => {
                for operation in self.names_under_way.drain(..) {
                    apply_name(&mut self.names, operation);
                }
            }
        }
    }

    pub(crate) fn image(mut self, fate: Fate) -> BTreeMap<String, Vec<u8>> {
        let mut draw = Draw(match fate {
            Fate::Drawn(seed) => seed,
            Fate::Lost | Fate::Kept => 0,
        });
        let renamed = match fate {
            Fate::Lost => 0,
            Fate::Kept => self.names_under_way.len(),
            Fate::Drawn(_) => draw.below(self.names_under_way.len() + 1),
        };
        for operation in &self.names_under_way[..renamed] {
            apply_name(&mut self.names, operation);
        }
        for (file, operations) in &self.under_way {
            let content = self.contents.entry(*file).or_default();
            for operation in operations {
                match fate {
                    Fate::Lost => {}
                    Fate::Kept => apply(content, operation, &mut || true),
                    Fate::Drawn(_) => match draw.below(8) {
                        0..4 => apply(content, operation, &mut || true),
                        4 | 5 => apply(content, operation, &mut || draw.below(2) == 0),
                        _ => {}
                    },
                }
            }
        }
        let content = |file| self.contents.get(&file).cloned().unwrap_or_default();
        let names = self.names.iter();
        names
            .map(|(name, file)| (name.clone(), content(*file)))
            .collect()
    }
}

fn apply_name(names: &mut BTreeMap<String, FileId>, operation: &Operation) {
    if let Operation::Name { new, gone } = operation {
        rename(names, new.as_ref(), gone.as_deref());
    }
}

/// Applies an operation to the content of a file. `gets_there` decides for each sector whether it reaches the disk.
fn apply(content: &mut Vec<u8>, operation: &Operation, gets_there: &mut dyn FnMut() -> bool) {
    match operation {
        Operation::Write { at, bytes, .. } => {
            let mut at = *at as usize;
            let mut left: &[u8] = bytes;
            while !left.is_empty() {
                let in_sector = (SECTOR_BYTES - at % SECTOR_BYTES).min(left.len());
                let (now, later) = left.split_at(in_sector);
                if gets_there() {
                    if content.len() < at + in_sector {
                        content.resize(at + in_sector, 0);
                    }
                    content[at..at + in_sector].copy_from_slice(now);
                }
                (at, left) = (at + in_sector, later);
            }
        }
        Operation::SetLength { bytes, .. } => {
            if gets_there() {
                content.resize(*bytes as usize, 0);
            }
        }
        Operation::Sync { .. } | Operation::Name { .. } | Operation::SyncFolder => {}
    }
}

/// Reproducible random numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powerloss::Journal;

    #[test]
    fn only_what_was_synced_is_sure_to_be_there() {
        let mut journal = Journal::default();
        journal.write("a", 0, &[1; 600]);
        journal.sync("a");
        assert_eq!(journal.after_cut(3, Fate::Lost), BTreeMap::new(), "no name");
        journal.sync_folder();
        journal.write("a", 0, &[2; 600]);
        journal.rename("a", "b");
        let cut = journal.len();
        let only = |name: &str, content: Vec<u8>| BTreeMap::from([(name.to_owned(), content)]);
        assert_eq!(journal.after_cut(cut, Fate::Lost), only("a", vec![1; 600]));
        assert_eq!(journal.after_cut(cut, Fate::Kept), only("b", vec![2; 600]));
        let drawn: Vec<_> = (0..200)
            .map(|seed| journal.after_cut(cut, Fate::Drawn(seed)))
            .collect();
        let torn = [vec![1; 512], vec![2; 88]].concat();
        assert!(drawn.contains(&only("b", torn)), "a torn write");
        journal.sync("b");
        let planted = journal.without_syncs("b", cut, journal.len());
        let after = |journal: &Journal| journal.after_cut(journal.len(), Fate::Lost);
        assert_eq!(after(&journal), only("a", vec![2; 600]));
        assert_eq!(after(&planted), only("a", vec![1; 600]));
    }
}
