//! Findings about the ledger: its database and schema, or the folder of its file.

use std::path::Path;

use rustix::fs::{Access, access};

use super::Findings;
use crate::{
    DATABASE_SCHEMA_VERSION,
    config::{EngineKind, NodeConfig},
    schema_version,
};

const SUBJECT: &str = "ledger";
/// The shipped unit creates this folder (`StateDirectory`).
const FOLDER_OF_UNIT: &str = "/var/lib/qiang";

pub(super) async fn examine(config: &NodeConfig, findings: &mut Findings) {
    let url = config
        .ledger
        .url()
        .filter(|_| config.engine.kind == EngineKind::Redis);
    let Some(url) = url else {
        folder(&config.engine.data, findings);
        return;
    };
    match schema_version(url).await {
        Ok(version) => schema(version, findings),
        Err(error) => {
            let error = anyhow::Error::new(error);
            findings.wrong(
                SUBJECT,
                format!("the database does not answer ({error:#}): start it, or correct ledger.url and the password"),
            );
        }
    }
}

fn schema(version: u32, findings: &mut Findings) {
    let needed = DATABASE_SCHEMA_VERSION;
    let text = match version {
        0 => "the database has no tables: run `qiang migrate`".to_owned(),
        older if older < needed => {
            format!(
                "the schema is at version {older}, this program needs {needed}: run `qiang migrate`"
            )
        }
        newer if newer > needed => {
            format!(
                "the schema is at version {newer}, this program has {needed}: use a newer program"
            )
        }
        _ => return,
    };
    findings.wrong(SUBJECT, text);
}

/// The file itself may not exist yet, or another process may serve it.
fn folder(file: &Path, findings: &mut Findings) {
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.exists() && folder == Path::new(FOLDER_OF_UNIT) {
        findings.advise(
            SUBJECT,
            format!(
                "there is no folder {FOLDER_OF_UNIT} yet: the unit creates it at its first start"
            ),
        );
    } else if !folder.is_dir() {
        findings.wrong(
            SUBJECT,
            format!(
                "there is no folder {}: create it for the service's user, or correct engine.data",
                folder.display()
            ),
        );
    } else if access(folder, Access::WRITE_OK).is_err() {
        findings.advise(
            SUBJECT,
            format!(
                "this user may not write {}: repeat this command as the service's user",
                folder.display()
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_schema_names_the_remedy() {
        for (version, remedy) in [
            (0, Some("no tables: run `qiang migrate`")),
            (DATABASE_SCHEMA_VERSION, None),
            (DATABASE_SCHEMA_VERSION + 1, Some("use a newer program")),
        ] {
            let mut findings = Findings::default();
            schema(version, &mut findings);
            let text = findings.0.first().map(|it| it.text.as_str());
            assert_eq!(text.is_some(), remedy.is_some(), "{text:?}");
            assert!(
                text.unwrap_or_default()
                    .contains(remedy.unwrap_or_default()),
                "{text:?}"
            );
        }
    }
}
