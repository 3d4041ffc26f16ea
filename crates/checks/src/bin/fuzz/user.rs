//! User who sends requests and checks the answers.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    answers::Reader,
    corpus::Corpus,
    mutate::{Draft, PAGE, break_bytes},
    report::Report,
};

/// Time limit for an answer, and for the end of a useless connection. Longer waits count as hanging.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Maximum requests per write.
const AT_ONCE_MAX: u64 = 16;
/// One turn in this number sends malformed bytes.
const BROKEN_OF: u32 = 12;

/// User with a random generator of its own.
pub(crate) struct User {
    addr: SocketAddr,
    corpus: Arc<Corpus>,
    report: Arc<Report>,
    random: ChaCha8Rng,
}

impl User {
    pub(crate) fn new(
        addr: SocketAddr,
        corpus: Arc<Corpus>,
        report: Arc<Report>,
        seed: u64,
        number: u64,
    ) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number);
        Self {
            addr,
            corpus,
            report,
            random,
        }
    }

    /// Sends requests until `end`.
    pub(crate) async fn send_until(mut self, end: Instant) {
        let mut open = None;
        while Instant::now() < end {
            let (stream, had_body) = match open.take() {
                Some(open) => open,
                None => match TcpStream::connect(self.addr).await {
                    Ok(stream) => (stream, false),
                    Err(error) => {
                        self.report.violation("cannot connect", &error.to_string());
                        return;
                    }
                },
            };
            if self.random.random_ratio(1, BROKEN_OF) {
                self.send_broken(stream).await;
            } else {
                open = self.send_sound(stream, had_body).await;
            }
        }
    }

    /// Sends some requests with valid framing at once, and reads as many answers.
    ///
    /// Returns the connection if it is still open, and whether its last request had a body. A node that has not read
    /// such a body may close the connection after its answer. `had_body` is the same for the previous request.
    async fn send_sound(
        &mut self,
        mut stream: TcpStream,
        mut had_body: bool,
    ) -> Option<(TcpStream, bool)> {
        let mut bytes = Vec::new();
        let mut drafts = Vec::new();
        for _ in 0..self.random.random_range(1..=AT_ONCE_MAX) {
            let mut draft = Draft::sound(&self.corpus, &mut self.random)?;
            for _ in 0..self.random.random_range(0..3) {
                draft.change(&mut self.random);
            }
            draft.write(&mut bytes);
            drafts.push(draft);
        }
        let written = self.write(&mut stream, &bytes).await;
        let mut reader = Reader::default();
        for (answered, draft) in drafts.iter().enumerate() {
            let to_head = draft.method == "HEAD";
            let answer = timeout(ANSWER_MAX, reader.next(&mut stream, to_head)).await;
            let shown = || String::from_utf8_lossy(&bytes).into_owned();
            let answer = match answer {
                Err(_) => {
                    self.report.violation("no answer", &shown());
                    return None;
                }
                // The node closed the connection during the write, so its answer is lost.
                Ok(Err(_)) if written.is_err() => return None,
                Ok(Err(error)) if is_reset(&error) => {
                    self.report.reset();
                    return None;
                }
                Ok(Err(error)) => {
                    self.report.violation(&format!("{error:#}"), &shown());
                    return None;
                }
                // The node closes a connection after its answer if it does not read the body.
                Ok(Ok(None)) if had_body => {
                    self.report.reset();
                    return None;
                }
                Ok(Ok(None)) => {
                    let mut last = Vec::new();
                    for draft in drafts
                        .iter()
                        .take(answered + 1)
                        .skip(answered.saturating_sub(1))
                    {
                        draft.write(&mut last);
                    }
                    let of = drafts.len();
                    let last = String::from_utf8_lossy(&last);
                    let shown = format!(
                        "{answered} of {of} answers received; the last answered request and the next one:\n{last}"
                    );
                    self.report
                        .violation("connection closed without an answer", &shown);
                    return None;
                }
                Ok(Ok(Some(answer))) => answer,
            };
            self.report.answer(&answer);
            had_body = draft.has_body();
            if let Some(fault) = answer.fault(to_head, draft.accepts_page()) {
                let mut request = Vec::new();
                draft.write(&mut request);
                let (request, body) = (
                    String::from_utf8_lossy(&request),
                    String::from_utf8_lossy(&answer.body),
                );
                let shown = format!("{request}\n{} {body}", answer.status);
                self.report.violation(fault, &shown);
            }
            if answer.is_last() {
                return None;
            }
        }
        Some((stream, had_body))
    }

    /// Sends malformed bytes, shuts its side down, and waits until the node has closed the connection.
    async fn send_broken(&mut self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        for _ in 0..self.random.random_range(1..4) {
            if let Some(draft) = Draft::sound(&self.corpus, &mut self.random) {
                draft.write(&mut bytes);
            }
        }
        break_bytes(&mut bytes, &mut self.random);
        if self.write(&mut stream, &bytes).await.is_err() {
            return;
        }
        if self.random.random_ratio(1, 8) {
            // Leaves without a shutdown.
            return;
        }
        let accepts_page = bytes
            .windows(PAGE.len())
            .any(|part| part == PAGE.as_bytes());
        let read = timeout(ANSWER_MAX, self.read_to_end(&mut stream, accepts_page)).await;
        let shown = || String::from_utf8_lossy(&bytes).into_owned();
        match read {
            Err(_) => self.report.violation("the connection stays open", &shown()),
            Ok(Err(error)) if is_reset(&error) => self.report.reset(),
            Ok(Err(error)) => self.report.violation(&format!("{error:#}"), &shown()),
            Ok(Ok(faults)) => {
                for (fault, answer) in faults {
                    let shown = format!("{}\n{answer}", shown());
                    self.report.violation(fault, &shown);
                }
            }
        }
        self.report.broken();
    }

    async fn read_to_end(
        &self,
        stream: &mut TcpStream,
        accepts_page: bool,
    ) -> Result<Vec<(&'static str, String)>> {
        stream
            .shutdown()
            .await
            .context("cannot shut the connection down")?;
        let (mut reader, mut faults) = (Reader::default(), Vec::new());
        reader.is_last_word_said = true;
        while let Some(answer) = reader.next(stream, false).await? {
            self.report.answer(&answer);
            if let Some(fault) = answer.fault(false, accepts_page) {
                let body = String::from_utf8_lossy(&answer.body);
                faults.push((fault, format!("{} {body}", answer.status)));
            }
            if answer.is_stream() {
                break;
            }
        }
        Ok(faults)
    }

    /// Writes bytes, sometimes in pieces.
    async fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
        let pieces = if self.random.random_ratio(1, 20) {
            3
        } else {
            1
        };
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            match timeout(ANSWER_MAX, stream.write_all(piece)).await {
                Ok(written) => written?,
                Err(_) => bail!("the node does not read"),
            }
            if pieces > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(())
    }
}

/// Whether the other side closed the connection while data was in flight to it.
fn is_reset(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    let kind = error
        .downcast_ref::<std::io::Error>()
        .map(std::io::Error::kind);
    kind.is_some_and(|kind| matches!(kind, ConnectionReset | BrokenPipe | NotConnected))
}
