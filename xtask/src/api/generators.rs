//! Linters of the document, and generators whose clients must compile in their strictest mode.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{DOCUMENT, MINUTES_MAX, Tools};
use crate::command;

/// Tag of the requests that the service sends. openapi-generator writes no valid TypeScript for such operations, so its
/// clients are generated for the other tags.
const EVENTS: &str = "webhook events";
/// Libraries of the generated client in Java: annotations, and forms of several parts.
const LIBRARIES: &str =
    "/usr/share/java/geronimo-annotation-1.3-spec.jar:/usr/share/java/httpmime.jar";

impl Tools {
    /// Runs redocly and spectral. Each rule that is off has its reason in `xtask/api/redocly.yaml` and `spectral.yaml`.
    pub(super) fn lint(&self, root: &Path) -> Result<()> {
        let programs = self.node.join("node_modules/.bin");
        let (programs, sources) = (programs.display(), self.sources.display());
        for line in [
            format!(
                "{programs}/redocly lint {DOCUMENT} --config {sources}/redocly.yaml --max-problems 20"
            ),
            format!(
                "{programs}/spectral lint {DOCUMENT} --ruleset {sources}/spectral.yaml --fail-severity warn"
            ),
        ] {
            command::run(&format!("{MINUTES_MAX} {line}"), root)?;
        }
        Ok(())
    }

    /// Generates clients with hey-api, orval and openapi-generator, and compiles them as strictly as their generators
    /// allow.
    pub(super) fn compile_clients(&self, root: &Path, run: &Path) -> Result<()> {
        let out = self.node.join("generated");
        drop(fs::remove_dir_all(&out));
        let programs = self.node.join("node_modules/.bin");
        let (programs, to) = (programs.display(), out.display());
        // hey-api takes a relative path for the name of a document in its registry.
        let document = root.join(DOCUMENT);
        let document = document.display();
        let generator = self.python.join("bin/openapi-generator-cli");
        let generator = format!(
            "{MINUTES_MAX} {} generate --strict-spec true -i {document}",
            generator.display()
        );
        let apis = api_names(root)?;
        let only = format!(
            "--global-property apis={},models,supportingFiles,modelDocs=false,apiDocs=false",
            apis.join(":")
        );
        let java = run.join("java");
        for line in [
            format!("{programs}/openapi-ts -i {document} -o {to}/hey-api -c @hey-api/client-fetch"),
            format!(
                "{programs}/orval --input {document} --output {to}/orval/api.ts --client fetch"
            ),
            format!("{generator} -g typescript-fetch -o {to}/typescript-fetch {only}"),
            format!(
                "{generator} -g java --library native -p openApiNullable=false,hideGenerationTimestamp=true -o {}",
                java.display()
            ),
        ] {
            command::run(&line, root)?;
        }
        let configs = ["tsconfig.generated.json", "tsconfig.strictest.json"];
        for config in configs {
            fs::copy(self.sources.join(config), self.node.join(config))?;
        }
        for config in configs {
            command::run(&format!("{programs}/tsc -p {config}"), &self.node)?;
        }
        // A file that another one overwrites is missing.
        let java = java.join("src/main/java/org/openapitools/client/api");
        for name in apis.iter().map(String::as_str).chain(["WebhookEvents"]) {
            if !java.join(format!("{name}Api.java")).exists() {
                bail!("openapi-generator wrote no {name}Api.java");
            }
        }
        self.compile_java(run)
    }

    /// Compiles the generated client in Java with all warnings as errors. Jackson is in the generator's own jar, which
    /// is newer than the calls of the generated code (`deprecation`).
    fn compile_java(&self, run: &Path) -> Result<()> {
        let sources = command::read("find java/src/main/java -name *.java", run)?;
        fs::write(run.join("java-sources"), sources)?;
        let line = format!(
            "{MINUTES_MAX} javac -Xlint:all,-deprecation,-path,-processing,-serial -Werror -proc:none --release 17 -d \
             java-classes -cp {}:{LIBRARIES} @java-sources",
            self.generator_jar()?.display()
        );
        command::run(&line, run)
    }

    fn generator_jar(&self) -> Result<PathBuf> {
        // The folder below `lib` has the version of Python.
        for version in fs::read_dir(self.python.join("lib"))? {
            let packages = version?.path().join("site-packages");
            let jar = packages.join("openapi_generator_cli/openapi-generator.jar");
            if jar.exists() {
                return Ok(jar);
            }
        }
        bail!("openapi-generator-cli is not installed")
    }
}

/// Names that openapi-generator gives to the tags of the paths.
fn api_names(root: &Path) -> Result<Vec<String>> {
    let document: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(root.join(DOCUMENT))?)?;
    let tags = document["tags"].as_array().into_iter().flatten();
    let names = tags
        .filter_map(|tag| tag["name"].as_str())
        .filter(|name| *name != EVENTS);
    Ok(names.map(pascal_case).collect())
}

fn pascal_case(tag: &str) -> String {
    tag.split(' ')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            format!("{}{rest}", first.to_uppercase())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn tags_have_the_names_of_files() {
        assert_eq!(super::pascal_case("red packets"), "RedPackets");
        assert_eq!(super::pascal_case("sales"), "Sales");
    }
}
