//! Changes of keys and revocations of tokens while a node runs, with tokens of the program.

use std::{fs, path::Path, process::Command};

use serde_json::json;

use crate::common::{call, output};
use crate::operation::program::{Program, until};

/// Makes an Ed25519 key according to docs/operate/security.md. Returns its entry in a key set.
fn key(folder: &Path, kid: &str) -> String {
    let script = format!(
        "openssl genpkey -algorithm ed25519 -out {kid}.pem\n\
         x=$(openssl pkey -in {kid}.pem -pubout -outform DER | tail -c 32 | basenc --base64url | tr -d '=\\n')\n\
         printf '{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"{kid}\",\"x\":\"%s\"}}' \"$x\""
    );
    let mut command = Command::new("sh");
    let made = command.current_dir(folder).args(["-ec", &script]).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap()
}

fn token(folder: &Path, kid: &str, jti: &str) -> String {
    let pem = format!("{kid}.pem");
    let args = [
        "token", "--sub", "ann", "--key", &pem, "--kid", kid, "--jti", jti,
    ];
    let made = output(folder, &args, &[]);
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_changed_and_tokens_revoked_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (key(folder.path(), "old"), key(folder.path(), "new"));
    let put = |name: &str, text: &str| {
        let file = folder.path().join(name);
        let beside = file.with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::rename(&beside, &file).unwrap();
    };
    put("jwks.json", &format!("{{\"keys\":[{old}]}}"));
    put("revoked", "");
    put(
        "qiang.toml",
        "[auth]\njwks_file = 'jwks.json'\nrevoked_file = 'revoked'\n",
    );
    let mut node = Program::start(folder.path(), &["serve", "--config", "qiang.toml"], &[]);
    node.ready(200).await;
    let addr = node.addr().await;
    let tokens = [
        token(folder.path(), "old", "a"),
        token(folder.path(), "new", "b"),
        token(folder.path(), "new", "c"),
    ];
    let judged = async |expected: [u16; 3]| {
        let look = async || {
            let mut found = [0; 3];
            for (status, token) in found.iter_mut().zip(&tokens) {
                let path = "/v1/accounts/ann";
                let reply = call(addr, "GET", path, Some(token), &[], None);
                *status = reply.await.status;
            }
            (found == expected).then_some(())
        };
        until(&format!("never {expected:?}"), look).await;
    };
    judged([200, 401, 401]).await;
    put("jwks.json", &format!("{{\"keys\":[{old},{new}]}}"));
    judged([200, 200, 200]).await;
    put("revoked", "jti b\n");
    judged([200, 401, 200]).await;
    put("jwks.json", "{");
    let said = "a file has changed and cannot be used: what was read before still counts";
    let line = node.line(said).await;
    assert_eq!(
        (&line["level"], &line["key"]),
        (&json!("ERROR"), &json!("auth.jwks_file"))
    );
    judged([200, 401, 200]).await;
    put("jwks.json", &format!("{{\"keys\":[{new}]}}"));
    judged([401, 401, 200]).await;
    // A signal reloads the configuration: another file and another bound.
    put("other.json", &format!("{{\"keys\":[{old}]}}"));
    put("qiang.toml", "[auth]\njwks_file = 'other.json'\n");
    node.signal("-HUP");
    judged([200, 401, 401]).await;
    put(
        "qiang.toml",
        "[auth]\njwks_file = 'other.json'\nlifetime_s_max = 3599\n",
    );
    node.signal("-HUP");
    judged([401, 401, 401]).await;
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
}
