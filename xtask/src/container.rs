//! `cargo xtask container`: builds the image of `deploy/container`, and runs its program with `--version`. If no
//! builder is installed or answers, or a base image cannot be pulled, the check is skipped.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::command;
use crate::steps::Done;

const FILE: &str = "deploy/container/Containerfile";
/// Name of the image. It is kept as a cache for the next build.
const IMAGE: &str = "qiang-xtask";
/// Time limit of a builder's probe. Some builders wait for a service that does not answer.
const ANSWERS_WITHIN: &str = "timeout 20";
/// Time limit of the pull of one base image.
const PULLED_WITHIN: &str = "timeout 900";

/// Program that builds images.
struct Builder {
    name: &'static str,
    /// Command that succeeds only if the builder's service runs, too.
    probe: &'static str,
    /// Command that succeeds if it has an image, which is appended.
    has: &'static str,
    build: &'static str,
    /// Commands that print the version of the program in the image, possibly among other lines.
    run: &'static [&'static str],
}

const BUILDERS: [Builder; 3] = [
    Builder {
        name: "podman",
        probe: "info",
        has: "image inspect",
        build: "build",
        run: &["run --rm --read-only qiang-xtask --version"],
    },
    Builder {
        name: "docker",
        probe: "version",
        has: "image inspect",
        build: "build",
        run: &["run --rm --read-only qiang-xtask --version"],
    },
    Builder {
        name: "buildah",
        probe: "info",
        has: "inspect --type image",
        build: "bud",
        run: &[
            "from --name qiang-xtask-run qiang-xtask",
            "run qiang-xtask-run -- /usr/local/bin/qiang --version",
            "rm qiang-xtask-run",
        ],
    },
];

/// Builds the image and runs its program, or returns why not.
pub(crate) fn run(root: &Path) -> Result<Done> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    run_with(root, &std::env::split_paths(&path).collect::<Vec<_>>())
}

fn run_with(root: &Path, search: &[PathBuf]) -> Result<Done> {
    let mut silent = Vec::new();
    for builder in &BUILDERS {
        let mut found = search.iter().map(|folder| folder.join(builder.name));
        let Some(program) = found.find(|file| file.is_file()) else {
            continue;
        };
        let program = program.display();
        if command::succeeds(
            &format!("{ANSWERS_WITHIN} {program} {}", builder.probe),
            root,
        ) {
            let program = program.to_string();
            if let Some(image) = missing_base(root, builder, &program)? {
                return Ok(Done::Skipped(format!(
                    "the image was not built: {} cannot pull {image}",
                    builder.name
                )));
            }
            try_image(root, builder, &program)?;
            return Ok(Done::Passed);
        }
        silent.push(builder.name);
    }
    let names = BUILDERS.map(|builder| builder.name).join(", ");
    Ok(Done::Skipped(match silent.is_empty() {
        true => format!("the image was not built: none of {names} is installed"),
        false => format!(
            "the image was not built: {} is installed but does not answer",
            silent.join(" and ")
        ),
    }))
}

/// The first base image that the builder neither has nor can pull: no registry answers, as a rule.
fn missing_base(root: &Path, builder: &Builder, program: &str) -> Result<Option<String>> {
    let file = root.join(FILE);
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let images = text.lines().filter_map(|line| line.strip_prefix("FROM "));
    let mut images = images.filter_map(|rest| rest.split_whitespace().next());
    let is_missing = |image: &&str| {
        !command::succeeds(&format!("{program} {} {image}", builder.has), root)
            && !command::succeeds(&format!("{PULLED_WITHIN} {program} pull {image}"), root)
    };
    Ok(images.find(is_missing).map(ToOwned::to_owned))
}

fn try_image(root: &Path, builder: &Builder, program: &str) -> Result<()> {
    let commit = command::read("git rev-parse --short=12 HEAD", root).unwrap_or_default();
    let (build, commit) = (builder.build, commit.trim());
    let args = format!("--build-arg QIANG_COMMIT={commit} --file {FILE} --tag {IMAGE} .");
    command::run(&format!("{program} {build} {args}"), root)?;
    let mut printed = String::new();
    for line in builder.run {
        printed += &command::read(&format!("{program} {line}"), root)?;
    }
    let Some(version) = printed.lines().find(|line| line.starts_with("qiang ")) else {
        bail!("the program in the image does not print its version: {printed:?}");
    };
    println!("{}: {version}", builder.name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::command::script;

    fn here() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    #[test]
    fn without_a_builder_that_answers_it_says_that_nothing_was_built() {
        let bin = tempfile::tempdir().unwrap();
        let search = [bin.path().to_owned()];
        let Done::Skipped(why) = run_with(here(), &search).unwrap() else {
            panic!("nothing can have been built");
        };
        assert!(
            why.contains("not built") && why.contains("podman, docker, buildah"),
            "{why}"
        );
        // The client is installed, but its service does not answer.
        script(&bin.path().join("docker"), "exit 1");
        let Done::Skipped(why) = run_with(here(), &search).unwrap() else {
            panic!("nothing can have been built");
        };
        assert!(
            why.contains("docker is installed but does not answer"),
            "{why}"
        );
    }

    #[test]
    fn the_first_that_answers_builds_and_the_program_says_its_version() {
        let bin = tempfile::tempdir().unwrap();
        let search = [bin.path().to_owned()];
        script(&bin.path().join("podman"), "exit 1");
        let body = "echo \"$@\" >> $(dirname $0)/log; case $1 in run) echo 'qiang 1.2.3';; esac";
        script(&bin.path().join("docker"), body);
        script(&bin.path().join("buildah"), "touch $(dirname $0)/ran");
        assert_eq!(run_with(here(), &search).unwrap(), Done::Passed);
        let log = fs::read_to_string(bin.path().join("log")).unwrap();
        let calls: Vec<&str> = log.lines().collect();
        assert_eq!(calls.len(), 5, "{log}");
        assert_eq!(calls[0], "version");
        assert!(calls[1].starts_with("image inspect docker.io/"), "{log}");
        assert!(
            calls[3].starts_with("build ") && calls[3].contains(FILE),
            "{log}"
        );
        assert_eq!(calls[4], "run --rm --read-only qiang-xtask --version");
        assert!(!bin.path().join("ran").exists());
    }

    #[test]
    fn without_a_registry_it_says_that_nothing_was_built() {
        let bin = tempfile::tempdir().unwrap();
        let search = [bin.path().to_owned()];
        script(&bin.path().join("podman"), "test $1 = info");
        let Done::Skipped(why) = run_with(here(), &search).unwrap() else {
            panic!("nothing can have been built");
        };
        let expected = "not built: podman cannot pull docker.io/library/rust:";
        assert!(why.contains(expected), "{why}");
        // An image that can be pulled is built on.
        let body = "case $1 in image) exit 1;; run) echo 'qiang 1.2.3';; esac";
        script(&bin.path().join("podman"), body);
        assert_eq!(run_with(here(), &search).unwrap(), Done::Passed);
    }

    #[test]
    fn a_failing_build_and_a_silent_program_are_failures() {
        let bin = tempfile::tempdir().unwrap();
        let search = [bin.path().to_owned()];
        script(&bin.path().join("podman"), "test $1 != build");
        assert!(run_with(here(), &search).is_err());
        script(&bin.path().join("podman"), "echo something else");
        let error = run_with(here(), &search).unwrap_err().to_string();
        assert!(error.contains("does not print its version"), "{error}");
    }
}
