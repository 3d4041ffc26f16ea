//! `cargo xtask clients`: checks the clients in Rust, Python, TypeScript and Java, and runs the sample shop.
//!
//! Their generated parts must follow from the document. Each client is compiled in its strictest mode and packed. Then
//! it runs the cases of `clients/contract` and the quick start of its page, against a service and a proxy that loses
//! answers. The tools are those of `cargo xtask api`, and Debian's JDK with Jackson.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::api::{self, MINUTES_MAX, Tools};
use crate::{command, needs};

const GENERATOR: &str = "xtask/clients/generate.py";
const CONTRACT: &str = "clients/contract/run.py";
const SHOP: &str = "examples/shop";
/// Jars of Debian that the client in Java needs.
const JACKSON: &str = "/usr/share/java/jackson-databind.jar:/usr/share/java/jackson-core.jar:\
                       /usr/share/java/jackson-annotations.jar";
/// All warnings are errors. Jars name others that are not installed (`path`), and no processor reads annotations.
const JAVAC: &str = "javac -Xlint:all,-path -Werror -proc:none --release 17 -encoding UTF-8";

/// Builds the program and checks the clients.
pub(crate) fn run(root: &Path) -> Result<()> {
    needs::install()?;
    api::install(root)?;
    command::run("cargo build -p qiang --all-features", root)?;
    run_built(root)
}

/// Writes the generated parts of the clients.
pub(crate) fn write(root: &Path) -> Result<()> {
    command::run(&format!("python3 -B {GENERATOR} write"), root)
}

/// Checks the clients with the program of the tests' build. That build has the example as a test alone, so it is linked
/// here.
pub(crate) fn run_built(root: &Path) -> Result<()> {
    command::run(&format!("python3 -B {GENERATOR} check"), root)?;
    command::run(
        "cargo build --workspace --example contract --all-features",
        root,
    )?;
    let tools = Tools::new(root)?;
    let out = tools.target.join("clients");
    drop(fs::remove_dir_all(&out));
    fs::create_dir_all(&out)?;
    let build = ClientBuild { root, tools, out };
    build.check_types()?;
    let rust = build.tools.target.join("debug/examples/contract");
    let rust = json!({"name": "rust", "contract": [shown(&rust)]});
    let clients = json!([rust, build.python()?, build.typescript()?, build.java()?]);
    let list = build.out.join("clients.json");
    fs::write(&list, clients.to_string())?;
    let program = build.tools.target.join("debug/qiang");
    build.run_python(&format!(
        "{CONTRACT} run {} {}",
        program.display(),
        list.display()
    ))?;
    build.run_python(&format!("{SHOP}/test.py {}", program.display()))
}

struct ClientBuild<'a> {
    root: &'a Path,
    tools: Tools,
    /// Folder of everything that is built.
    out: PathBuf,
}

impl ClientBuild<'_> {
    /// Checks the types of all Python of the clients and the shop.
    fn check_types(&self) -> Result<()> {
        let line = format!(
            "{MINUTES_MAX} {} --strict --config-file clients/python/pyproject.toml --cache-dir {} clients/python/qiang \
             clients/python/tests {SHOP} clients/contract xtask/clients",
            self.program("mypy"),
            self.tools.target.join("api-tools/mypy-cache").display()
        );
        command::run(&line, self.root)
    }

    /// Builds and installs the package in Python.
    fn python(&self) -> Result<Value> {
        let (wheels, installed) = (self.out.join("wheels"), self.packages());
        let pip = format!(
            "{MINUTES_MAX} {} --quiet --disable-pip-version-check",
            self.program("pip")
        );
        let line = format!(
            "{pip} wheel --no-deps --no-index --no-build-isolation --wheel-dir {} clients/python",
            wheels.display()
        );
        command::run(&line, self.root)?;
        let line = format!(
            "{pip} install --no-deps --no-index --find-links {} --target {} qiang",
            wheels.display(),
            installed.display()
        );
        command::run(&line, self.root)?;
        let quick_start = self.quick_start("python", "python", &self.out.join("quick_start.py"))?;
        let python = [
            "env".to_owned(),
            format!("PYTHONPATH={}", installed.display()),
            self.program("python"),
        ];
        let with = |file: String| [python.as_slice(), &[file]].concat();
        let contract = self.root.join("clients/python/tests/contract.py");
        Ok(self.client("python", &with(shown(&contract)), &with(quick_start)))
    }

    /// Compiles and packs the package in TypeScript, and compiles its tests against what was packed.
    fn typescript(&self) -> Result<Value> {
        let folder = self.tools.node.join("clients");
        drop(fs::remove_dir_all(&folder));
        let (package, packed) = (folder.join("package"), folder.join("node_modules/qiang"));
        fs::create_dir_all(&packed)?;
        let sources = self.root.join("clients/typescript");
        let copies = [
            (sources.clone(), package.clone()),
            (sources.join("test"), folder.join("test")),
            (sources.join("tsconfig.json"), folder.join("tsconfig.json")),
        ];
        for (from, to) in copies {
            command::run(
                &format!("cp -r {} {}", from.display(), to.display()),
                self.root,
            )?;
        }
        let tsc = self.tools.node.join("node_modules/.bin/tsc");
        let tsc = tsc.display();
        self.quick_start("typescript", "ts", &folder.join("test/quick_start.ts"))?;
        for (line, folder) in [
            (format!("{tsc} -p ."), &package),
            (
                "npm pack --silent --offline --ignore-scripts --pack-destination ..".to_owned(),
                &package,
            ),
            (
                "tar -xzf qiang-0.1.0.tgz -C node_modules/qiang --strip-components 1".to_owned(),
                &folder,
            ),
            (format!("{tsc} -p test"), &folder),
        ] {
            command::run(&line, folder)?;
        }
        let with = |name: &str| {
            [
                "node".to_owned(),
                shown(&folder.join("test-dist").join(name)),
            ]
        };
        Ok(self.client("typescript", &with("contract.js"), &with("quick_start.js")))
    }

    /// Compiles the client in Java, and its tests.
    fn java(&self) -> Result<Value> {
        let (main, test) = (self.out.join("java/main"), self.out.join("java/test"));
        let sources = self.root.join("clients/java/src");
        let mut files = Vec::new();
        for package in ["main/java/qiang/client", "main/java/qiang/client/model"] {
            files.extend(java_files(&sources.join(package))?);
        }
        self.javac(&files, &main, JACKSON)?;
        let quick_start = self.out.join("QuickStart.java");
        self.quick_start("java", "java", &quick_start)?;
        let mut files = java_files(&sources.join("test/java/qiang/client"))?;
        files.push(shown(&quick_start));
        let path = format!("{}:{JACKSON}", main.display());
        self.javac(&files, &test, &path)?;
        let java = format!(
            "java -Xshare:auto -XX:TieredStopAtLevel=1 -cp {}:{path}",
            test.display()
        );
        let with = |class: &str| -> Vec<String> {
            let words = java.split(' ').map(str::to_owned);
            words.chain([class.to_owned()]).collect()
        };
        Ok(self.client("java", &with("qiang.client.Contract"), &with("QuickStart")))
    }

    fn javac(&self, files: &[String], to: &Path, path: &str) -> Result<()> {
        fs::create_dir_all(to)?;
        let list = self.out.join("sources");
        fs::write(&list, files.join("\n"))?;
        let line = format!(
            "{MINUTES_MAX} {JAVAC} -d {} -cp {path} @{}",
            to.display(),
            list.display()
        );
        command::run(&line, self.root)
    }

    /// Writes the first code block of a client's page to a file, and returns its path.
    fn quick_start(&self, client: &str, language: &str, file: &Path) -> Result<String> {
        let page = self.page(client);
        self.run_python(&format!(
            "{CONTRACT} extract {page} {language} {}",
            file.display()
        ))?;
        Ok(shown(file))
    }

    fn client(&self, name: &str, contract: &[String], quick_start: &[String]) -> Value {
        json!({"name": name, "page": self.page(name), "contract": contract, "quick_start": quick_start})
    }

    fn page(&self, client: &str) -> String {
        shown(&self.root.join("clients").join(client).join("README.md"))
    }

    /// Folder with the installed package in Python.
    fn packages(&self) -> PathBuf {
        self.out.join("python")
    }

    /// Program of the tools' environment.
    fn program(&self, name: &str) -> String {
        shown(&self.tools.python.join("bin").join(name))
    }

    fn run_python(&self, arguments: &str) -> Result<()> {
        let path = format!(
            "{}:{}",
            self.packages().display(),
            self.root.join("clients/contract").display()
        );
        let line = format!("{MINUTES_MAX} {} -B {arguments}", self.program("python"));
        command::run_with(&line, self.root, &[("PYTHONPATH", path.as_str())])
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Sources in Java of a folder.
fn java_files(folder: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "java")
        {
            files.push(shown(&path));
        }
    }
    files.sort();
    Ok(files)
}
