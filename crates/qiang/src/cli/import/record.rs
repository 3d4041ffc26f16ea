//! Record of imported rows, in a file of JSON lines.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
};

use anyhow::Context as _;
use parking_lot::Mutex;
use qiang::UsageError;
use serde::{Deserialize, Serialize};

/// First line of the record: the service whose objects it has.
#[derive(Serialize, Deserialize)]
struct RecordHead {
    service: String,
}

/// Further line of the record.
#[derive(Serialize, Deserialize)]
struct RecordLine {
    id: String,
    object: String,
}

/// Objects that earlier runs made, by the ids of their rows.
#[derive(Default)]
pub(super) struct ImportRecord {
    made: HashMap<String, String>,
    file: Option<Mutex<File>>,
}

impl ImportRecord {
    /// Opens the record of this service, or creates it. Without a path, nothing is recorded.
    pub(super) fn open(path: Option<&Path>, service: &str) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let name = path.display();
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => {
                read.map_err(|error| UsageError::new(format!("cannot read {name}: {error}")))?
            }
        };
        let mut made = HashMap::new();
        // A last line without an end was cut off by a crash: its request is repeated under the same key.
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let mut lines = (1..).zip(lines);
        let is_new = match lines.next() {
            None => true,
            Some((number, line)) => {
                let head: RecordHead = serde_json::from_str(line)
                    .map_err(|error| UsageError::new(format!("{name}:{number}: {error}")))?;
                if head.service != service {
                    let of = head.service;
                    let line = format!("{name} is the record of {of}, not of {service}");
                    return Err(UsageError::new(line).into());
                }
                false
            }
        };
        for (number, line) in lines {
            let line: RecordLine = serde_json::from_str(line)
                .map_err(|error| UsageError::new(format!("{name}:{number}: {error}")))?;
            made.insert(line.id, line.object);
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.with_context(|| format!("cannot write {name}"))?;
        if !text.is_empty() && !text.ends_with('\n') {
            let whole = text.rfind('\n').map_or(0, |at| at + 1);
            file.set_len(whole as u64)?;
            file.flush()?;
        }
        if is_new {
            let service = service.to_owned();
            let head = serde_json::to_string(&RecordHead { service })? + "\n";
            file.write_all(head.as_bytes())
                .with_context(|| format!("cannot write {name}"))?;
        }
        Ok(Self {
            made,
            file: Some(Mutex::new(file)),
        })
    }

    /// Object of a row that an earlier run made.
    pub(super) fn made(&self, id: &str) -> Option<&str> {
        self.made.get(id).map(String::as_str)
    }

    /// Adds an object.
    pub(super) fn add(&self, id: &str, object: &str) -> anyhow::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let line = RecordLine {
            id: id.to_owned(),
            object: object.to_owned(),
        };
        let line = serde_json::to_string(&line)? + "\n";
        file.lock()
            .write_all(line.as_bytes())
            .context("cannot write the record")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_a_cut_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made.jsonl");
        let record = ImportRecord::open(Some(&path), "http://one").unwrap();
        record.add("a", "1").unwrap();
        drop(record);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text += "{\"id\":\"b\",\"ob";
        std::fs::write(&path, text).unwrap();
        let record = ImportRecord::open(Some(&path), "http://one").unwrap();
        assert_eq!((record.made("a"), record.made("b")), (Some("1"), None));
        record.add("b", "2").unwrap();
        drop(record);
        let record = ImportRecord::open(Some(&path), "http://one").unwrap();
        assert_eq!((record.made("a"), record.made("b")), (Some("1"), Some("2")));
        let error = ImportRecord::open(Some(&path), "http://two").err().unwrap();
        assert!(error.to_string().contains("not of http://two"), "{error}");
        std::fs::write(&path, "x\n").unwrap();
        let error = ImportRecord::open(Some(&path), "http://one").err().unwrap();
        assert!(error.to_string().contains(":1: "), "{error}");
    }
}
