//! Passages of prose in a file: paragraphs of Markdown and of comments, and string literals of Rust.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Text of one paragraph, heading, cell or string, with the line numbers of its parts.
#[derive(Debug, Default)]
pub(super) struct Passage {
    pub(super) text: String,
    /// Whether the text is neither a heading nor a cell.
    pub(super) has_sentences: bool,
    /// Offsets at which a line starts, and the number of that line, in order.
    lines: Vec<(usize, usize)>,
}

impl Passage {
    #[cfg(test)]
    pub(super) fn of(line: usize, text: &str) -> Self {
        let mut passage = Self {
            has_sentences: true,
            ..Self::default()
        };
        passage.push(line, text);
        passage
    }

    fn push(&mut self, line: usize, text: &str) {
        self.lines.push((self.text.len(), line));
        self.text.push_str(text);
    }

    /// Number of the line with the byte at `offset`.
    pub(super) fn line(&self, offset: usize) -> usize {
        let after = self.lines.partition_point(|(start, _)| *start <= offset);
        self.lines[after - 1].1
    }
}

/// Consecutive lines of comments without their markers.
#[derive(Default)]
struct Comment {
    /// Number of the first line.
    line: usize,
    text: String,
}

/// Passages of a file by the extension of its name; none if files of this kind are not checked.
pub(super) fn read(path: &str, text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "md" => markdown(1, text, &mut passages),
        "rs" => rust(text, &mut passages),
        "lua" | "sql" => commented(text, "--", &mut passages),
        "toml" | "yaml" | "yml" | "sh" => commented(text, "#", &mut passages),
        "js" | "mjs" | "ts" => commented(text, "//", &mut passages),
        _ => {}
    }
    passages
}

/// Adds the paragraphs of a Markdown text that starts in line `first`. Code is left out.
fn markdown(first: usize, text: &str, passages: &mut Vec<Passage>) {
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let line = |offset: usize| first + starts.partition_point(|start| *start <= offset);
    let mut passage = Passage::default();
    let mut in_code = false;
    for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(words) if !in_code => passage.push(line(place.start), &words),
            Event::Code(_) | Event::InlineHtml(_) => passage.push(line(place.start), "`"),
            Event::SoftBreak | Event::HardBreak => passage.push(line(place.start), " "),
            Event::Start(Tag::Emphasis | Tag::Strong | Tag::Link { .. }) => {}
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link) => {}
            other => {
                let is_short = matches!(other, Event::End(TagEnd::Heading(_) | TagEnd::TableCell));
                finish(&mut passage, !is_short, passages);
            }
        }
    }
    finish(&mut passage, true, passages);
}

fn finish(passage: &mut Passage, has_sentences: bool, passages: &mut Vec<Passage>) {
    passage.has_sentences = has_sentences;
    if !passage.text.is_empty() {
        passages.push(std::mem::take(passage));
    }
}

/// Adds comments that start with `marker` at the start of a line, or after a blank outside a string.
fn commented(text: &str, marker: &str, passages: &mut Vec<Passage>) {
    let mut comments = Comments::default();
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        if let Some(words) = trimmed.strip_prefix(marker) {
            comments.push(number, marker, words, passages);
            continue;
        }
        comments.finish(passages);
        let trailing = line.match_indices(marker).find(|(at, _)| {
            let before = &line[..*at];
            before.ends_with(' ') && before.matches('"').count() % 2 == 0
        });
        if let Some((at, _)) = trailing {
            markdown(number, &line[at + marker.len()..], passages);
        }
    }
    comments.finish(passages);
}

/// Joins comment lines that follow each other and have the same marker.
#[derive(Default)]
struct Comments {
    marker: String,
    comment: Comment,
    next: usize,
}

impl Comments {
    fn push(&mut self, line: usize, marker: &str, words: &str, passages: &mut Vec<Passage>) {
        if line != self.next || marker != self.marker {
            self.finish(passages);
            marker.clone_into(&mut self.marker);
            self.comment.line = line;
        }
        self.comment.text.push_str(words);
        self.comment.text.push('\n');
        self.next = line + 1;
    }

    fn finish(&mut self, passages: &mut Vec<Passage>) {
        let comment = std::mem::take(&mut self.comment);
        markdown(comment.line, &comment.text, passages);
        self.next = 0;
    }
}

/// Adds comments and string literals of Rust.
fn rust(text: &str, passages: &mut Vec<Passage>) {
    let mut comments = Comments::default();
    let mut at = 0;
    let mut line = 1;
    let mut is_line_start = true;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        let token = token(rest, text[..at].chars().next_back());
        let whole = &rest[..token.len.max(next.len_utf8())];
        match token.kind {
            Kind::LineComment => {
                let marker = ["///", "//!", "//"]
                    .into_iter()
                    .find(|marker| whole.starts_with(marker))
                    .unwrap_or("//");
                let words = &whole[marker.len()..];
                match is_line_start {
                    true => comments.push(line, marker, words, passages),
                    false => markdown(line, words, passages),
                }
            }
            Kind::BlockComment => markdown(line, &whole[2..], passages),
            Kind::Raw => string(line, whole, false, passages),
            Kind::String => string(line, whole, true, passages),
            Kind::Other => {}
        }
        let lines = whole.matches('\n').count();
        is_line_start = match whole.trim().is_empty() {
            true => is_line_start || lines > 0,
            false => false,
        };
        line += lines;
        at += whole.len();
    }
    comments.finish(passages);
}

enum Kind {
    LineComment,
    BlockComment,
    Raw,
    String,
    Other,
}

struct Token {
    kind: Kind,
    len: usize,
}

/// First token of `rest`, as far as comments and literals matter; `before` is the character in front of it.
fn token(rest: &str, before: Option<char>) -> Token {
    let some = |kind, len| Token { kind, len };
    if rest.starts_with("//") {
        return some(Kind::LineComment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        let len = rest.find("*/").map_or(rest.len(), |end| end + 2);
        return some(Kind::BlockComment, len);
    }
    let is_in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !is_in_word && let Some(hashes) = raw_hashes(rest) {
        let open = rest.find('"').map_or(0, |quote| quote + 1);
        let close = format!("\"{}", "#".repeat(hashes));
        let len = rest[open..]
            .find(&close)
            .map_or(rest.len(), |end| open + end + close.len());
        return some(Kind::Raw, len);
    }
    match rest.as_bytes()[0] {
        b'"' => some(Kind::String, quoted(rest, b'"')),
        // A lifetime has no second quote right after its first character.
        b'\'' if rest.starts_with("'\\") => some(Kind::Other, quoted(rest, b'\'')),
        b'\'' => {
            let mut chars = rest.char_indices().skip(2);
            match chars.next() {
                Some((quote, '\'')) => some(Kind::Other, quote + 1),
                _ => some(Kind::Other, 1),
            }
        }
        _ => some(Kind::Other, 0),
    }
}

/// Number of `#` of a raw string that `rest` starts with.
fn raw_hashes(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let after = after.strip_prefix('r')?;
    let opened = after.trim_start_matches('#');
    opened
        .starts_with('"')
        .then_some(after.len() - opened.len())
}

/// Length of a literal with escapes, with both quotes.
fn quoted(rest: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Adds a string literal that has at least two words. Escapes, placeholders and text in backticks are left out.
fn string(line: usize, literal: &str, has_escapes: bool, passages: &mut Vec<Passage>) {
    let mut passage = Passage::default();
    let mut in_backticks = false;
    let body = literal.trim_start_matches(['b', 'c', 'r', '#']);
    let body = body.trim_end_matches('#');
    let body = body.strip_prefix('"').unwrap_or(body);
    let body = body.strip_suffix('"').unwrap_or(body);
    for (number, part) in (line..).zip(body.split('\n')) {
        let mut text = String::new();
        let mut chars = part.chars();
        while let Some(c) = chars.next() {
            match c {
                '`' => {
                    in_backticks = !in_backticks;
                    text.push('`');
                }
                '\\' if has_escapes => match chars.next() {
                    Some('"') => text.push('"'),
                    Some(_) => text.push(' '),
                    None => {}
                },
                _ if in_backticks => {}
                '{' => {
                    let rest = chars.as_str();
                    let end =
                        rest.find(|c: char| c == '}' || c.is_whitespace() || "\"\\{".contains(c));
                    if let Some(end) = end.filter(|end| rest[*end..].starts_with('}')) {
                        chars = rest[end + 1..].chars();
                    }
                    text.push('`');
                }
                c => text.push(c),
            }
        }
        text.push(' ');
        passage.push(number, &text);
    }
    if passage.text.trim().contains(' ') {
        finish(&mut passage, true, passages);
    }
}
