//! `cargo xtask container`: builds the image of `deploy/container` with buildah, which needs no daemon, and runs it.

mod check;
mod context;
mod node;
mod processor;
mod sbom;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub(crate) use self::context::copy;
use self::processor::Processor;
use anyhow::{Context as _, Result, bail, ensure};

use crate::faults::target;
use crate::steps::Done;
use crate::{command, needs};

const FILE: &str = "deploy/container/Containerfile";
/// The image's program in the folder of a [`Store`].
const PROGRAM: &str = "context/root/usr/local/bin/qiang";
/// Name of the image in its archive.
const IMAGE: &str = "localhost/qiang";
/// Largest sum of the image's files, with a program of the profile [`DIST`].
const MIB_MAX: u64 = 60;
/// Largest sum of all files but the program.
const OTHERS_MIB_MAX: u64 = 8;
/// Profile of delivered programs.
pub(crate) const DIST: &str = "dist";
/// Builds the program of an image or of a package. Its symbols are removed, so it needs no debug information.
const BUILD: &str = "cargo build --features full --locked -p qiang";
const ADD_TARGET: &str = "rustup target add";

/// Storage of buildah below a folder, apart from the images of the machine.
struct Store {
    folder: PathBuf,
}

/// Image in a [`Store`].
struct Image {
    /// Digest of the image's configuration, which has the digests of its layers.
    id: String,
    /// Sum of its files.
    bytes: u64,
    /// Size of the program among them.
    program_bytes: u64,
}

impl Store {
    fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = folder.to_owned();
        Ok(Self { folder })
    }

    /// A command of buildah. `vfs` needs no support of the kernel.
    fn line(&self, args: &str) -> String {
        let at = self.folder.display();
        format!("buildah --root {at}/storage --runroot {at}/run --storage-driver vfs {args}")
    }

    fn read(&self, args: &str) -> Result<String> {
        Ok(command::read(&self.line(args), &self.folder)?
            .trim()
            .to_owned())
    }

    /// Builds the image of a program. All times in it are the commit's.
    fn build(&self, root: &Path, program: &Path, processor: Processor) -> Result<Image> {
        let context = self.folder.join("context");
        let commit = Commit::of(root)?;
        context::write(root, program, processor, &context)?;
        let (file, at) = (root.join(FILE), self.folder.display());
        let args = format!(
            "build --quiet --isolation chroot --format oci --arch {} --timestamp {} --identity-label=false --no-cache \
             --build-arg VERSION={} --build-arg REVISION={} --iidfile {at}/image-id --file {} --tag {IMAGE} {}",
            processor.name()?,
            commit.seconds,
            env!("CARGO_PKG_VERSION"),
            commit.name,
            file.display(),
            context.display()
        );
        self.read(&args)?;
        let id = fs::read_to_string(self.folder.join("image-id"))?;
        Ok(Image {
            id,
            bytes: size(&context)?,
            program_bytes: fs::metadata(self.folder.join(PROGRAM))?.len(),
        })
    }

    /// Writes the image as a file that podman and docker load.
    fn save(&self, file: &Path) -> Result<()> {
        drop(fs::remove_file(file));
        let version = env!("CARGO_PKG_VERSION");
        self.read(&format!(
            "push --quiet {IMAGE} oci-archive:{}:{IMAGE}:{version}",
            file.display()
        ))?;
        Ok(())
    }
}

/// Commit that an image is built from.
pub(crate) struct Commit {
    name: String,
    pub(crate) seconds: String,
}

impl Commit {
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let line = command::read("git show --no-patch --format=%H.%ct HEAD", root)?;
        let (name, seconds) = line
            .trim()
            .split_once('.')
            .context("git prints no commit")?;
        Ok(Self {
            name: name.to_owned(),
            seconds: seconds.to_owned(),
        })
    }
}

/// Processor and profile of an image.
pub(crate) struct Choice {
    /// Cargo's profile. The size is compared for [`DIST`] alone.
    pub(crate) profile: String,
    /// An image for 64-bit ARM instead of this machine's processor.
    pub(crate) is_arm64: bool,
}

impl Choice {
    fn processor(&self) -> Processor {
        match self.is_arm64 {
            true => Processor::Arm64,
            false => Processor::Own,
        }
    }

    /// Installs the tools for another processor.
    fn install(&self, root: &Path) -> Result<()> {
        let Some(target) = self.processor().target() else {
            return Ok(());
        };
        needs::install_for_arm64()?;
        let line = format!("{ADD_TARGET} {target}");
        command::run(&line, root).with_context(|| {
            format!("Rust's library for {target} is missing: add it with\n    {line}")
        })
    }

    /// Refuses an image that is too large.
    fn compare_size(&self, image: &Image) -> Result<()> {
        if self.profile == DIST && image.bytes > MIB_MAX << 20 {
            bail!(
                "the files of the image are {} MiB: at most {MIB_MAX}",
                image.bytes >> 20
            );
        }
        Ok(())
    }
}

/// Builds the program and its image, runs the image, and writes it to a file.
pub(crate) fn run(root: &Path, choice: &Choice) -> Result<()> {
    choice.install(root)?;
    let target = target(root)?;
    let processor = choice.processor();
    let built = target.join(processor.folder());
    let program = build_for(root, &built, &choice.profile, processor)?;
    let image = check_image(root, &target, &program, processor)?;
    choice.compare_size(&image)?;
    name_no_folder(
        &target.join("image").join(PROGRAM),
        &[root, &built, &cargo_home()?],
    )?;
    let file = target.join(match processor {
        Processor::Own => "image/qiang.tar",
        Processor::Arm64 => "image/qiang-arm64.tar",
    });
    Store::new(&target.join("image"))?.save(&file)?;
    println!(
        "{}: load it with `podman load --input` or `docker load --input`",
        file.display()
    );
    Ok(())
}

/// Builds and runs the image with the program of the tests' build, which is larger and slower.
pub(crate) fn run_built(root: &Path) -> Result<Done> {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        return Ok(Done::Skipped(
            "only root may run an image with buildah".to_owned(),
        ));
    }
    let target = target(root)?;
    check_image(root, &target, &target.join("debug/qiang"), Processor::Own)?;
    // It needs several times the space of the program.
    fs::remove_dir_all(target.join("image")).context("cannot remove the image")?;
    Ok(Done::Passed)
}

fn check_image(root: &Path, target: &Path, program: &Path, processor: Processor) -> Result<Image> {
    let store = Store::new(&target.join("image"))?;
    let image = store.build(root, program, processor)?;
    // Nothing of the machine, of the day or of the order of files may be in it.
    let again = store.build(root, program, processor)?.id;
    ensure!(
        image.id == again,
        "two builds of one program are two images: {} and {again}",
        image.id
    );
    let others = image.bytes - image.program_bytes;
    println!(
        "image {}: {:.1} MiB of files, {:.1} without the program",
        image.id,
        mib(image.bytes),
        mib(others)
    );
    ensure!(
        others <= OTHERS_MIB_MAX << 20,
        "the files without the program are {:.1} MiB: at most {OTHERS_MIB_MAX}",
        mib(others)
    );
    let checked = check::run(&store, processor);
    store.read("rm --all")?;
    checked?;
    // Layers of earlier images.
    store.read("rmi --prune --force")?;
    Ok(image)
}

/// Builds two programs and images from two clean checkouts in different folders, and compares the images.
pub(crate) fn run_twice(root: &Path, choice: &Choice) -> Result<()> {
    choice.install(root)?;
    let processor = choice.processor();
    let folder = target(root)?.join("image-twice");
    let commit = Commit::of(root)?.name;
    let mut ids = Vec::new();
    for name in ["first", "second-checkout"] {
        let (source, built) = (folder.join(name), folder.join(format!("{name}-build")));
        let image = crate::upgrade::with_checkout(root, &commit, &source, |source| {
            let program = build_for(source, &built, &choice.profile, processor)?;
            let store = Store::new(&folder.join(format!("{name}-image")))?;
            let image = store.build(source, &program, processor)?;
            name_no_folder(
                &store.folder.join(PROGRAM),
                &[source, &built, &cargo_home()?],
            )?;
            Ok(image)
        })?;
        println!("{name}: {}, {:.1} MiB", image.id, mib(image.bytes));
        choice.compare_size(&image)?;
        ids.push(image.id);
    }
    if ids[0] != ids[1] {
        bail!("two builds of one commit are two images");
    }
    Ok(())
}

/// Builds the program of this machine's processor in a folder of its own.
pub(crate) fn build_program(source: &Path, built: &Path) -> Result<PathBuf> {
    build_for(source, built, DIST, Processor::Own)
}

/// Builds the program in a folder of its own, without the names of this machine's folders in it.
fn build_for(source: &Path, built: &Path, profile: &str, processor: Processor) -> Result<PathBuf> {
    let prefixes = [
        (source, "/src"),
        (built, "/build"),
        (&cargo_home()?, "/cargo"),
    ];
    let c = prefixes.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    let rust = prefixes.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    // With its sources installed, Rust's library has their folder in place of the compiler's name for it.
    let compiler = Compiler::here(source)?;
    let library = format!(
        "--remap-path-prefix={}=/rustc/{}",
        compiler.sources().display(),
        compiler.commit
    );
    let variables = processor.build_variables();
    let mut env = vec![
        ("CARGO_TARGET_DIR", built.display().to_string()),
        ("RUSTFLAGS", format!("{} {library}", rust.join(" "))),
        ("CFLAGS", c.join(" ")),
    ];
    env.extend(variables);
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, &**value)).collect();
    let mut line = format!(
        "{BUILD} --profile {profile} --config profile.{profile}.debug=false \
         --config profile.{profile}.package.\"*\".debug=false"
    );
    let mut folder = built.to_owned();
    if let Some(target) = processor.target() {
        line += &format!(" --target {target}");
        folder.push(target);
    }
    command::run_with(&line, source, &env)?;
    // Cargo's own name of this profile's folder.
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(folder.join(profile).join("qiang"))
}

/// Rust's compiler.
struct Compiler {
    /// Its folder.
    sysroot: PathBuf,
    /// Commit that it was built from.
    commit: String,
}

impl Compiler {
    fn here(root: &Path) -> Result<Self> {
        let sysroot = command::read("rustc --print sysroot", root)?;
        let version = command::read("rustc --version --verbose", root)?;
        let mut lines = version.lines();
        let commit = lines.find_map(|line| line.strip_prefix("commit-hash: "));
        Ok(Self {
            sysroot: PathBuf::from(sysroot.trim()),
            commit: commit.context("rustc prints no commit")?.to_owned(),
        })
    }

    /// Folder of the library's sources, if they are installed.
    fn sources(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust")
    }
}

/// Refuses a program with the name of a folder of this machine in it: another machine would build another program.
fn name_no_folder(program: &Path, folders: &[&Path]) -> Result<()> {
    let bytes = fs::read(program)?;
    for folder in folders {
        let name = folder.as_os_str().as_encoded_bytes();
        ensure!(
            !bytes.windows(name.len()).any(|part| part == name),
            "the program of the image names the folder {}",
            folder.display()
        );
    }
    Ok(())
}

/// Folder of Cargo's registry.
fn cargo_home() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")
}

/// Sum of the files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.path().symlink_metadata()?;
        sum += match metadata.is_dir() {
            true => size(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(sum)
}

/// Bytes as MiB.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1_u32 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page says how large an image may be.
    #[test]
    fn the_page_has_the_bounds_of_the_size() {
        let page = include_str!("../../docs/operate/deploy.md");
        for bound in [
            format!("at most {MIB_MAX} MiB"),
            format!("at most {OTHERS_MIB_MAX} MiB without the program"),
        ] {
            assert!(page.contains(&bound), "{bound}");
        }
    }

    /// The image is built from files of this machine alone, so no registry needs to answer.
    #[test]
    fn the_image_needs_no_registry() {
        let file = include_str!("../../deploy/container/Containerfile");
        let lines = |word: &str| {
            let begins = format!("{word} ");
            let lines = file.lines().filter(|line| line.starts_with(&begins));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(lines("FROM"), ["FROM scratch"]);
        assert!(lines("ADD").is_empty(), "{:?}", lines("ADD"));
        for line in lines("COPY") {
            assert!(!line.contains("--from"), "{line}");
        }
    }

    #[test]
    fn a_program_with_a_folder_of_the_machine_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let names = |text: &str| {
            fs::write(&program, text).unwrap();
            name_no_folder(
                &program,
                &[Path::new("/srv/ann/qiang"), Path::new("/cargo")],
            )
        };
        names("\0/src/crates/core/src/lib.rs\0/srv/ann/other").unwrap();
        let error = names("\0/srv/ann/qiang/crates/core").unwrap_err();
        assert!(error.to_string().contains("/srv/ann/qiang"), "{error}");
    }

    #[test]
    fn only_a_delivered_image_has_a_bound_of_its_size() {
        let choice = |profile: &str| Choice {
            profile: profile.to_owned(),
            is_arm64: false,
        };
        let image = |bytes| Image {
            id: String::new(),
            bytes,
            program_bytes: 0,
        };
        assert!(choice(DIST).compare_size(&image(MIB_MAX << 20)).is_ok());
        let large = image((MIB_MAX << 20) + 1);
        let error = choice(DIST).compare_size(&large).unwrap_err().to_string();
        assert!(error.contains("at most 60"), "{error}");
        assert!(choice("dev").compare_size(&large).is_ok());
    }
}
