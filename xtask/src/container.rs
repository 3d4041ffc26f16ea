//! `cargo xtask container`: builds the image of `deploy/container` with buildah, which needs no daemon, and runs it.

mod check;
mod context;
mod sbom;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub(crate) use self::context::copy;
use anyhow::{Context as _, Result, bail, ensure};

use crate::command;
use crate::faults::target;
use crate::steps::Done;

const FILE: &str = "deploy/container/Containerfile";
/// Name of the image in its archive.
const IMAGE: &str = "localhost/qiang";
/// Largest sum of the image's files, with a program of the profile `dist`.
const MIB_MAX: u64 = 60;
/// Builds the program of an image or of a package.
const BUILD: &str = "cargo build --profile dist --features full --locked -p qiang";

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
    fn build(&self, root: &Path, program: &Path) -> Result<Image> {
        let context = self.folder.join("context");
        let commit = Commit::of(root)?;
        context::write(root, program, &context)?;
        let (file, at) = (root.join(FILE), self.folder.display());
        let args = format!(
            "build --quiet --isolation chroot --format oci --timestamp {} --identity-label=false --no-cache \
             --build-arg VERSION={} --build-arg REVISION={} --iidfile {at}/image-id --file {} --tag {IMAGE} {}",
            commit.seconds,
            env!("CARGO_PKG_VERSION"),
            commit.name,
            file.display(),
            context.display()
        );
        self.read(&args)?;
        let id = fs::read_to_string(self.folder.join("image-id"))?;
        let bytes = size(&context)?;
        Ok(Image { id, bytes })
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

/// Builds the program and its image, runs the image, and writes it to a file.
pub(crate) fn run(root: &Path) -> Result<()> {
    let target = target(root)?;
    let program = build_program(root, &target.join("image-build"))?;
    let image = check_image(root, &target, &program)?;
    if image.bytes > MIB_MAX << 20 {
        bail!(
            "the files of the image are {} MiB: at most {MIB_MAX}",
            image.bytes >> 20
        );
    }
    let file = target.join("image/qiang.tar");
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
    check_image(root, &target, &target.join("debug/qiang"))?;
    // It needs several times the space of the program.
    fs::remove_dir_all(target.join("image")).context("cannot remove the image")?;
    Ok(Done::Passed)
}

fn check_image(root: &Path, target: &Path, program: &Path) -> Result<Image> {
    let store = Store::new(&target.join("image"))?;
    let image = store.build(root, program)?;
    // Nothing of the machine, of the day or of the order of files may be in it.
    let again = store.build(root, program)?.id;
    ensure!(
        image.id == again,
        "two builds of one program are two images: {} and {again}",
        image.id
    );
    println!("image {}: {} MiB of files", image.id, image.bytes >> 20);
    let checked = check::run(&store);
    store.read("rm --all")?;
    checked?;
    // Layers of earlier images.
    store.read("rmi --prune --force")?;
    Ok(image)
}

/// Builds two programs and images from two clean checkouts in different folders, and compares the images.
pub(crate) fn run_twice(root: &Path) -> Result<()> {
    let folder = target(root)?.join("image-twice");
    let commit = Commit::of(root)?.name;
    let mut ids = Vec::new();
    for name in ["first", "second-checkout"] {
        let (source, built) = (folder.join(name), folder.join(format!("{name}-build")));
        let id = crate::upgrade::with_checkout(root, &commit, &source, |source| {
            let program = build_program(source, &built)?;
            let store = Store::new(&folder.join(format!("{name}-image")))?;
            Ok(store.build(source, &program)?.id)
        })?;
        println!("{name}: {id}");
        ids.push(id);
    }
    if ids[0] != ids[1] {
        bail!("two builds of one commit are two images");
    }
    Ok(())
}

/// Builds the program in a folder of its own, without the names of this machine's folders in it.
pub(crate) fn build_program(source: &Path, built: &Path) -> Result<PathBuf> {
    let prefixes = [
        (source, "/src"),
        (built, "/build"),
        (&cargo_home()?, "/cargo"),
    ];
    let rust = prefixes.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let c = prefixes.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    let env = [
        ("CARGO_TARGET_DIR", &*built.display().to_string()),
        ("RUSTFLAGS", &rust.join(" ")),
        ("CFLAGS", &c.join(" ")),
    ];
    command::run_with(BUILD, source, &env)?;
    Ok(built.join("dist/qiang"))
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
