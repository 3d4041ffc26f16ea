//! Check of English prose: banned turns in Markdown, in comments, and in string literals of Rust.
//!
//! A line with `prose: allow` permits hits in itself and in the next line; an allowance without a hit is a breach.

mod passages;
mod turns;

use super::Breach;
use passages::Passage;
use turns::TURNS;

/// Marker that permits hits in its own line and in the next line, except between backticks.
const ALLOWANCE: &str = "prose: allow";

/// Paths and prefixes of paths without a check, each with its reason.
const EXEMPT: &[(&str, &str)] = &[
    ("CHANGELOG.md", "history"),
    ("crates/web/src/desk_texts.rs", "texts of pages"),
    ("crates/web/src/language", "texts of pages"),
    ("crates/web/templates/", "texts of pages"),
    ("xtask/src/tidy/prose.rs", "planted hits"),
    ("xtask/src/tidy/prose/", "the list of turns"),
];

pub(super) fn check(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    if EXEMPT.iter().any(|(prefix, _)| path.starts_with(prefix)) {
        return;
    }
    let passages = passages::read(path, text);
    if passages.is_empty() {
        return;
    }
    let quoted = format!("`{ALLOWANCE}`");
    let allowances: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.contains(ALLOWANCE) && !line.contains(&quoted))
        .map(|(number, _)| number)
        .collect();
    let mut used = Vec::new();
    for passage in &passages {
        for (line, what) in hits(passage) {
            let allowance = allowances
                .iter()
                .find(|at| **at == line || **at + 1 == line);
            match allowance {
                Some(at) => used.push(*at),
                None => breaches.push(Breach::line(path, line, what)),
            }
        }
    }
    for at in allowances.into_iter().filter(|at| !used.contains(at)) {
        let what = format!("`{ALLOWANCE}` without a banned turn");
        breaches.push(Breach::line(path, at, what));
    }
}

/// Banned turns of a passage: the line of the first word, and a message with a replacement.
fn hits(passage: &Passage) -> Vec<(usize, String)> {
    let words = words(&passage.text);
    let mut hits = Vec::new();
    for start in 0..words.len() {
        for turn in TURNS {
            let Some(count) = length(turn.words, &words[start..]) else {
                continue;
            };
            let permitted = |phrase: &&str| length(phrase, &words[start..]).is_some();
            let opens = turn.words.starts_with('^');
            if turn.unless.iter().any(permitted)
                || (opens && (!passage.has_sentences || is_question(&words[start..])))
            {
                continue;
            }
            let found: Vec<&str> = words[start..start + count]
                .iter()
                .map(|word| word.text.as_str())
                .collect();
            let what = format!("\"{}\": write {}", found.join(" "), turn.instead);
            hits.push((passage.line(words[start].offset), what));
        }
    }
    hits
}

#[derive(Debug)]
struct Word {
    /// Lower case, for comparison.
    text: String,
    offset: usize,
    /// Punctuation and white space up to the next word.
    after: String,
    /// Whether the word is the first of a sentence, and is capitalized.
    opens_sentence: bool,
}

impl Word {
    fn ends_sentence(&self) -> bool {
        let mut after = self.after.chars();
        after.any(|c| ".!?;".contains(c)) && after.any(char::is_whitespace)
    }
}

/// Words of a text. Identifiers with `_`, hyphenated words and paths are one word each. A backtick, which takes the
/// place of code, is also a word.
fn words(text: &str) -> Vec<Word> {
    let is_outer = |c: char| c.is_alphanumeric() || "_`".contains(c);
    let is_inner = |c: char| c.is_alphanumeric() || "_-'/".contains(c);
    let mut words: Vec<Word> = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find(is_outer) {
        let word = &rest[begin..];
        let end = word.find(|c| !is_inner(c)).unwrap_or(word.len()).max(1);
        let after = &word[end..];
        let next = after.find(is_outer);
        let offset = text.len() - word.len();
        let is_first = words.last().is_none_or(Word::ends_sentence);
        let is_capitalized = word.starts_with(char::is_uppercase)
            && word[..end].chars().skip(1).all(|c| !c.is_uppercase());
        // A quoted word is a value, and no part of a turn.
        let is_quoted = text[..offset].ends_with('"') && after.starts_with('"');
        words.push(Word {
            text: match is_quoted {
                true => String::from("\""),
                false => word[..end].to_lowercase(),
            },
            offset,
            after: after[..next.unwrap_or(after.len())].to_owned(),
            opens_sentence: is_first && is_capitalized,
        });
        rest = after;
    }
    words
}

/// Number of words at the start of `words` that match `pattern`; see [`turns::Turn::words`].
fn length(pattern: &str, words: &[Word]) -> Option<usize> {
    let (pattern, opens) = match pattern.strip_prefix('^') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    if opens && !words.first()?.opens_sentence {
        return None;
    }
    let mut at = 0;
    let mut gap = 0;
    for (index, part) in pattern.split(' ').enumerate() {
        if part == "…" {
            gap = 6;
            continue;
        }
        let is_part = |word: &Word| part.split('|').any(|option| option == word.text);
        let skipped = words.get(at..)?.iter().take(gap + 1).position(is_part)?;
        let between = &words[at.saturating_sub(1)..at + skipped];
        let is_joined = |word: &Word| match gap {
            0 => word.after.chars().all(char::is_whitespace),
            _ => !word.ends_sentence(),
        };
        if index > 0 && !between.iter().all(is_joined) {
            return None;
        }
        at += skipped + 1;
        gap = 0;
    }
    Some(at)
}

/// Whether the sentence that `words` begin with ends in a question mark.
fn is_question(words: &[Word]) -> bool {
    let end = words.iter().find(|word| word.ends_sentence());
    end.or(words.last())
        .is_some_and(|word| word.after.contains('?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects breaches in `lines` of a file.
    fn check_lines(path: &str, text: &str, lines: &[usize]) {
        let mut breaches = Vec::new();
        check(path, text, &mut breaches);
        let found: Vec<usize> = breaches.iter().filter_map(|breach| breach.line).collect();
        assert_eq!(found, lines, "{path}: {breaches:?} in {text:?}");
    }

    #[test]
    fn every_banned_turn_is_found() {
        for turn in TURNS {
            let opens = turn.words.starts_with('^');
            let options: Vec<Vec<&str>> = turn
                .words
                .trim_start_matches('^')
                .split(' ')
                .map(|part| part.split('|').collect())
                .collect();
            let longest = options.iter().map(Vec::len).max().unwrap();
            for option in 0..longest {
                let phrase: Vec<&str> = options
                    .iter()
                    .map(|part| match part[option.min(part.len() - 1)] {
                        "…" => "the two books",
                        word => word,
                    })
                    .collect();
                let mut text = format!("it says {} here.", phrase.join(" "));
                if opens {
                    text = text.split_off("it says ".len());
                    text[..1].make_ascii_uppercase();
                }
                let passage = Passage::of(1, &text);
                let what = format!("write {}", turn.instead);
                let found = hits(&passage);
                assert!(found.iter().any(|(_, hit)| hit.ends_with(&what)), "{text}");
            }
        }
    }

    #[test]
    fn phrases_that_only_look_like_a_turn_are_permitted() {
        for text in [
            "The key nobody_yet and the value \"everybody\" stay.",
            "The value `everybody` stays, and so does `set aside`.",
            "The load grew so much that the node refused claims.",
            "Each key is held against the limit of its caller.",
            "All shares have all the same size.",
            "The row goes on disk.",
            "A batch has no more than 512 claims, and never any more than one commit.",
            "None of the nodes answers, and none of their rows is written.",
            "No more claims are decided than it admits; it has so many rows that it is large.",
            "A node behind a proxy, behind the proxy or behind a load balancer reads the header.",
            "It takes up memory, and it takes up to 10 seconds.",
            "SQL reads the table set_aside.",
            "A client behind an unlisted reverse proxy has its address.",
            "The letter T stands for a term, and an index stands in for a row.",
            "It lasts so long as the lease. None of these is read.",
            "The node by-passes it, one file at a time.",
            "The lease is held. A test compares it against the clock.",
            "What does a claim cost? Where does it go?",
            "The seed: of a packet. `Seed` of a sale.",
            "WHERE id = 1",
            "# What a repair does\n\n| What | Of |\n|-|-|\n| Who | Where |\n\n- who claims\n",
            "Say what is missing, and where.",
            "Those. Who answers?",
            "The list of those, which is short, is printed.",
        ] {
            check_lines("a.md", text, &[]);
        }
    }

    #[test]
    fn turns_are_found_over_wrapped_lines() {
        check_lines(
            "a.rs",
            "//! Doc of those\n//! who claim.\nfn f() {}\n",
            &[1],
        );
        check_lines(
            "a.md",
            "A list of\nthose who\nclaim.\n\nAnd so\nmany\n",
            &[2, 5],
        );
        check_lines("a.rs", "f(\"reads those \\\n  who claim\");\n", &[1]);
        check_lines("a.rs", "f(\"one\n two by\n itself\");\n", &[2]);
        check_lines(
            "a.sql",
            "-- Rows of those\n-- who claim.\nselect 1;\n",
            &[1],
        );
        // Separate comments and paragraphs are not joined.
        check_lines("a.rs", "// Those\n\n// who claim\n", &[]);
        check_lines(
            "a.rs",
            "f(); // One of those\n// Whose row is here.\n",
            &[2],
        );
        check_lines("a.md", "- one of those\n- who claims\n", &[]);
    }

    #[test]
    fn only_prose_is_searched() {
        check_lines("a.rs", "fn nobody() { whoever.set_aside(nobody) }\n", &[]);
        check_lines(
            "a.rs",
            "f(\"nobody\", 'a', \"{nobody}\", \"user:nobody\");\n",
            &[],
        );
        check_lines("a.rs", "f(\"nobody claims\");\n", &[1]);
        check_lines(
            "a.rs",
            "f(\"{nobody} and {whatever:?}, {{nobody}} {nobody claims\");\n",
            &[1],
        );
        check_lines(
            "a.rs",
            "f(r#\"a \"b\" nobody\"#);\nlet c = '\"'; // nobody\n",
            &[1, 2],
        );
        check_lines(
            "a.rs",
            "fn f<'a>() {} /* nobody\n */ fn nobody() {}\n",
            &[1],
        );
        check_lines(
            "a.rs",
            "/// ```\n/// // nobody\n/// ```\n/// Nobody.\n",
            &[4],
        );
        check_lines(
            "a.md",
            "`nobody`\n```\nnobody\n```\n    nobody\n\n| nobody |\n",
            &[7],
        );
        check_lines("a.md", "[nobody](nobody.md)\n", &[1]);
        check_lines(
            "a.toml",
            "nobody = \"nobody # here\" # nobody\n# nobody\n",
            &[1, 2],
        );
        check_lines("a.lua", "local nobody = 1\n-- nobody\n", &[2]);
        check_lines("a.yml", "a: nobody\n# nobody\n", &[2]);
        check_lines("a.js", "nobody(\"https://nobody\"); // nobody\n", &[1]);
        check_lines("a.json", "nobody\n", &[]);
    }

    #[test]
    fn exceptions_are_named() {
        check_lines("CHANGELOG.md", "Nobody.\n", &[]);
        check_lines("crates/web/src/language.rs", "// Nobody.\n", &[]);
        check_lines("crates/web/src/lib.rs", "// Nobody.\n", &[1]);
        check_lines(
            "a.rs",
            "// prose: allow\nf(\"nobody claims\");\n// Nobody.\n",
            &[3],
        );
        check_lines("a.rs", "f(\"nobody claims\"); // prose: allow\n", &[]);
        check_lines("a.md", "<!-- prose: allow -->\nNobody.\n", &[]);
        check_lines("a.rs", "// prose: allow\nfn f() {}\n", &[1]);
        check_lines("a.md", "`prose: allow`\n", &[]);
    }
}
