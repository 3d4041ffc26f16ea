//! `qiang top`: one reading for scripts, and the screen on a pseudo-terminal.

use crate::common::{Service, output};
use serde_json::{Value, json};

/// A service with a sale of five units, and three users who have one unit each.
async fn busy() -> (Service, String) {
    let service = Service::start().await;
    let sale = service
        .sale(5, |body| body["title"] = json!("手机 phones"))
        .await;
    for user in ["ann", "bob", "eve"] {
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.act(&path, &service.token(user, "claim")).await;
        assert_eq!(order.status, 201, "{order:?}");
    }
    (service, sale)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reading_is_printed_for_scripts() {
    let (service, sale) = busy().await;
    let (url, token) = (format!("http://{}", service.addr), service.operator());
    let env = [("QIANG_URL", url.as_str()), ("QIANG_TOKEN", &token)];
    let folder = service.folder.path();
    let run = |args: &[&str], env: &[(&str, &str)]| output(folder, args, env);
    let read = run(&["top", "--json"], &env);
    assert!(read.status.success(), "{read:?}");
    let figures: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(figures["campaigns"][0]["id"], json!(sale));
    assert_eq!(figures["campaigns"][0]["state"]["remaining"], json!(2));
    assert_eq!(figures["is_stopped"], json!(false));
    assert_eq!(figures["outcomes_per_s"]["granted"], json!(0.0));
    let read = run(&["top", "--once"], &env);
    let text = String::from_utf8(read.stdout).unwrap();
    assert!(text.contains("2 of 5 left"), "{text}");
    // Without a token, only figures of the node are read.
    let read = run(&["top", "--json"], &env[..1]);
    let figures: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(figures["campaigns"], json!([]));
    assert!(figures["no_campaigns"].is_string());
    // A user's token lists her own campaigns. She has none.
    let ann = service.token("ann", "claim");
    let read = run(&["top", "--json"], &[env[0], ("QIANG_TOKEN", &ann)]);
    let figures: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(figures["campaigns"], json!([]));
    // Without a terminal there is no screen, and without a service there are no figures.
    assert_eq!(run(&["top"], &env).status.code(), Some(2));
    let nobody = ["top", "--once", "--metrics-url", "http://127.0.0.1:1"];
    let failed = run(&nobody, &env);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    service.stop().await;
}

#[cfg(feature = "top")]
mod on_a_terminal {
    use std::{
        io::{Read as _, Write as _},
        process::{Child, ChildStdin, Command, Stdio},
        sync::{Arc, Mutex},
        time::{Duration, Instant},
    };

    use super::*;

    /// Sequences that turn on and off the alternate screen, turn on red text, and turn on any colour.
    const ENTERED: &str = "\u{1b}[?1049h";
    const LEFT: &str = "\u{1b}[?1049l";
    const RED: &str = "\u{1b}[38;5;1;";
    const COLOR: &str = "\u{1b}[38;5;";

    /// The program on an 80×24 terminal from `script`.
    struct Screen {
        child: Child,
        keys: ChildStdin,
        shown: Arc<Mutex<Vec<u8>>>,
    }

    impl Screen {
        fn open(service: &Service, env: &[(&str, &str)]) -> Self {
            let url = format!("http://{}", service.addr);
            let program = env!("CARGO_BIN_EXE_qiang");
            // Prints the settings of the terminal after the program has ended.
            let line = format!("stty rows 24 cols 80; {program} top; echo ended $?; stty -a");
            let mut command = Command::new("script");
            command
                .args([
                    "--quiet",
                    "--return",
                    "--flush",
                    "--command",
                    &line,
                    "/dev/null",
                ])
                .env_clear()
                .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
                .envs([("TERM", "xterm-256color"), ("SHELL", "/bin/sh")])
                .envs([
                    ("QIANG_URL", url.as_str()),
                    ("QIANG_TOKEN", &service.operator()),
                ])
                .envs(env.iter().copied())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit());
            let mut child = command.spawn().unwrap();
            let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let shown = Arc::<Mutex<Vec<u8>>>::default();
            let into = Arc::clone(&shown);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = out.read(&mut bytes) {
                    into.lock().unwrap().extend_from_slice(&bytes[..read]);
                }
            });
            Self { child, keys, shown }
        }

        fn text(&self) -> String {
            String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
        }

        fn shows(&self, what: &str) {
            let start = Instant::now();
            while !self.text().contains(what) {
                let text = self.text();
                assert!(
                    start.elapsed() < Duration::from_secs(20),
                    "{what}: {text:?}"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }

        fn press(&mut self, keys: &str) {
            self.keys.write_all(keys.as_bytes()).unwrap();
            self.keys.flush().unwrap();
        }

        /// Checks that the program has ended and has restored the terminal.
        fn ended(mut self) -> String {
            self.shows("ended 0");
            self.shows(" echo ");
            self.child.wait().unwrap();
            let text = self.text();
            let (before, after) = text.split_once(LEFT).unwrap();
            assert!(before.contains(ENTERED), "{before:?}");
            assert!(
                !after.contains("-icanon") && !after.contains("-echo "),
                "{after:?}"
            );
            text
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_sale_is_watched_and_paused() {
        let (service, sale) = busy().await;
        let mut screen = Screen::open(&service, &[]);
        screen.shows("phones");
        screen.shows("granting");
        screen.press("p");
        screen.shows("any other key");
        screen.press("y");
        screen.shows("paused ");
        let state = service
            .get(&format!("/v1/campaigns/{sale}/state"), "")
            .await;
        assert_eq!(state.text("phase"), "paused");
        screen.press("q");
        let text = screen.ended();
        assert!(text.contains(RED), "{text:?}");
        service.stop().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_signal_leaves_the_terminal_as_it_was() {
        let (service, _) = busy().await;
        let mut screen = Screen::open(&service, &[("NO_COLOR", "1")]);
        screen.shows("phones");
        screen.press("p");
        screen.shows("any other key");
        // The only child process of the shell that runs the program.
        let below = Command::new("ps")
            .args(["-o", "pid=,args=", "--ppid"])
            .arg(shell_of(screen.child.id()))
            .output()
            .unwrap();
        let below = String::from_utf8(below.stdout).unwrap();
        let line = below.lines().find(|line| line.ends_with(" top")).unwrap();
        let pid = line.split_whitespace().next().unwrap();
        assert!(
            Command::new("kill")
                .args(["-TERM", pid])
                .status()
                .unwrap()
                .success()
        );
        let text = screen.ended();
        assert!(!text.contains(COLOR), "{text:?}");
        service.stop().await;
    }

    /// The shell that `script` runs.
    fn shell_of(script: u32) -> String {
        let below = Command::new("ps")
            .args(["-o", "pid=", "--ppid", &script.to_string()])
            .output()
            .unwrap();
        String::from_utf8(below.stdout).unwrap().trim().to_owned()
    }
}
