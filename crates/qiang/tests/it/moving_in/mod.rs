//! Moving in: import, export and shadow mode, by the program.

mod import;
#[cfg(feature = "servers")]
mod on_redis;
mod outbox;
mod shadow;

use std::{net::SocketAddr, path::Path};

use crate::common::output;

/// Output of the program, and its exit code.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Expects this exit code, and these texts on standard error.
    #[track_caller]
    fn failed(self, code: i32, expected: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        for text in expected {
            assert!(self.stderr.contains(text), "{text}: {}", self.stderr);
        }
        self.stdout
    }
}

/// A service, a folder of files, and the token of an operator.
struct Shop<'a> {
    addr: SocketAddr,
    folder: &'a Path,
    token: String,
}

impl Shop<'_> {
    fn run(&self, args: &[&str]) -> Ran {
        let url = format!("http://{}", self.addr);
        run(
            self.folder,
            args,
            &[("QIANG_URL", &url), ("QIANG_TOKEN", &self.token)],
        )
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    /// Rows of an export, as JSON.
    fn exported(&self, what: &str) -> Vec<serde_json::Value> {
        let printed = self.run(&["export", what, "--json"]).ok();
        printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn run(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let ran = output(folder, args, env);
    Ran {
        code: ran.status.code(),
        stdout: String::from_utf8(ran.stdout).unwrap(),
        stderr: String::from_utf8(ran.stderr).unwrap(),
    }
}
