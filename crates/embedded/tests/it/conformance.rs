//! Runs the conformance suite of all engines on the embedded engine, its log and its ledger.

use std::{path::PathBuf, sync::Arc};

use qiang_core::{
    book::Grace,
    ports::{Clock, Engine, EventLog, Ledger},
};
use qiang_embedded::{Embedded, EmbeddedOptions};
use qiang_testkit::{ManualClock, conformance::Subject, engine_conformance};

struct OneFile {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    embedded: Embedded,
}

fn open(path: PathBuf, clock: &Arc<ManualClock>) -> Embedded {
    let clock = Arc::clone(clock);
    Embedded::open(&path, clock).unwrap_or_else(|error| panic!("{error}"))
}

impl Subject for OneFile {
    async fn start(clock: Arc<ManualClock>) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the file");
        let embedded = open(directory.path().join("qiang.db"), &clock);
        Self {
            directory,
            clock,
            embedded,
        }
    }

    fn engine(&self) -> &dyn Engine {
        &self.embedded
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.embedded
    }

    fn log(&self) -> &dyn EventLog {
        &self.embedded
    }

    async fn restart(self) -> Self {
        let Self {
            directory,
            clock,
            embedded,
        } = self;
        embedded.abort();
        drop(embedded);
        let embedded = open(directory.path().join("qiang.db"), &clock);
        Self {
            directory,
            clock,
            embedded,
        }
    }

    async fn down(self, while_down: impl FnOnce() + Send) -> Self {
        let Self {
            directory,
            clock,
            embedded,
        } = self;
        embedded.close();
        drop(embedded);
        while_down();
        let since = Clock::now(&*clock);
        let options = EmbeddedOptions {
            grace: Grace { ms: 0, since },
            ..EmbeddedOptions::default()
        };
        let path = directory.path().join("qiang.db");
        let opened = Embedded::open_with(&path, Arc::clone(&clock) as _, options);
        Self {
            directory,
            clock,
            embedded: opened.unwrap_or_else(|error| panic!("{error}")),
        }
    }

    async fn stop(self) {
        self.embedded.close();
    }
}

engine_conformance!(OneFile);
engine_conformance!(downtimes OneFile);
