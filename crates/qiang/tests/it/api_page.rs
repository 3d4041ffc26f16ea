//! Runs the commands of the guide and of the pages for integrators, page by page from the top.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use qiang_testkit::servers::{Resources, ServerProcess};

/// Pages with `sh` blocks that are run. Each page makes its own tokens, and its `text` blocks are the expected output.
const PAGES: &[&str] = &[
    "guide/sale.md",
    "guide/red-packet.md",
    "integrate/tokens.md",
    "integrate/api.md",
    "integrate/claims.md",
    "integrate/payments.md",
    "integrate/payments-stripe.md",
    "integrate/payments-wechat.md",
    "integrate/payments-alipay.md",
    "integrate/webhooks.md",
    "operate/moving-in.md",
    "operate/capacity.md",
];

/// A code block of a page, between lines of three backticks.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join(page)).unwrap();
    let parts: Vec<_> = page.split("```").collect();
    let inside = parts.iter().skip(1).step_by(2);
    let blocks = inside.map(|part| {
        let (language, text) = part.split_once('\n').unwrap();
        Block {
            language: language.to_owned(),
            text: text.to_owned(),
        }
    });
    blocks.collect()
}

/// Runs a program in the folder of the secret, with `qiang` on the path.
fn run(folder: &Path, program: &str, args: &[&str], url: &str) -> Output {
    let qiang = PathBuf::from(env!("CARGO_BIN_EXE_qiang"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", qiang.parent().unwrap().display());
    let mut command = Command::new(program);
    command.current_dir(folder).args(args);
    let output = command.env("PATH", path).env("URL", url).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {error}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_pages_print_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "0123456789abcdef0123456789abcdef";
    fs::write(folder.path().join("secret"), secret).unwrap();
    // Pages of payment services write their accounts into it.
    fs::write(folder.path().join("accounts.toml"), "").unwrap();
    let at = folder.path().to_owned();
    let command = move |free: &Resources| {
        let listen = free.addr().to_string();
        let (data, secret) = (at.join("shop.db"), at.join("secret"));
        let accounts = at.join("accounts.toml");
        let args = [
            "serve",
            "--listen",
            &listen,
            "--data",
            data.to_str().unwrap(),
        ];
        let secret = secret.to_str().unwrap();
        let env = [
            ("QIANG__AUTH__HS256_SECRET_FILE", secret),
            ("QIANG__ADMIN__LISTEN", "server"),
            ("QIANG__PAYMENTS__ACCOUNTS_FILE", accounts.to_str().unwrap()),
        ];
        crate::common::qiang(&at, &args, &env)
    };
    let is_up = |at: &Resources| TcpStream::connect(at.addr()).is_ok();
    let service = ServerProcess::builder(command).ready(is_up).start();
    let addr = service.addr();
    let url = format!("http://{addr}");

    for page in PAGES {
        let (mut script, mut expected) = (String::from("set -euo pipefail\n"), String::new());
        for block in blocks(page) {
            match block.language.as_str() {
                "sh" => script.push_str(&block.text),
                "text" => expected.push_str(&block.text),
                _ => {}
            }
        }
        let printed = text(&run(folder.path(), "bash", &["-c", &script], &url));
        assert_eq!(printed, expected, "{page}");
    }

    // The service accepts tokens that backends make themselves, for the user that they name.
    let blocks = blocks("integrate/tokens.md");
    let of = |language: &str| {
        let block = blocks.iter().find(|block| block.language == language);
        block.unwrap().text.clone()
    };
    for (user, program, args) in [
        ("carol", "python3", vec!["-c".to_owned(), of("python")]),
        (
            "dave",
            "node",
            vec![
                "--input-type=module".to_owned(),
                "-e".to_owned(),
                of("javascript"),
            ],
        ),
        ("erin", "bash", vec!["-c".to_owned(), of("bash")]),
    ] {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let token = text(&run(folder.path(), program, &args, &url));
        let path = format!("/v1/accounts/{user}");
        let reply = crate::common::call(addr, "GET", &path, Some(token.trim()), &[], None).await;
        assert_eq!(reply.status, 200, "{program}");
    }
}
