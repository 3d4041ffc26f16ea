//! The banned turns, each with a replacement.

pub(super) struct Turn {
    /// Words in lower case with one blank between them. `a|b` is one word or the other, `…` up to six words of the
    /// same sentence, `^` the capitalized start of a sentence that is
    /// not a question, a heading or a cell of a table.
    pub(super) words: &'static str,
    pub(super) instead: &'static str,
    /// Phrases that begin with the same word and are permitted, in the same notation.
    pub(super) unless: &'static [&'static str],
}

const fn turn(words: &'static str, instead: &'static str) -> Turn {
    Turn {
        words,
        instead,
        unless: &[],
    }
}

const fn turn_unless(
    words: &'static str,
    instead: &'static str,
    unless: &'static [&'static str],
) -> Turn {
    Turn {
        words,
        instead,
        unless,
    }
}

pub(super) const TURNS: &[Turn] = &[
    turn("whoever|whomever", "the actor: user, node, operator"),
    turn("whatever", "any"),
    turn("nobody", "no user, no node"),
    turn("somebody|anybody|everybody", "a user, every user"),
    turn("somebody's|anybody's|everybody's|nobody's", "of a user"),
    turn("those who|that|which|whose|whom", "the noun: users that"),
    turn("is|are|was|were|be|been told", "receives"),
    turn_unless("so much|many", "the number", &["so much|many … that"]),
    turn_unless(
        "so long|often",
        "this long, that often",
        &["so long|often that|as"],
    ),
    turn("by itself|themselves", "automatically"),
    turn_unless(
        "hold|holds|held … against",
        "compare with",
        &["hold|holds|held … against the|a|its|their limit|limits"],
    ),
    turn("written|write|writes|wrote down", "record"),
    turn("become|becomes|became of", "the result"),
    turn_unless("all the same", "still", &["all the same size|sizes|length"]),
    turn("meanwhile", "during what"),
    turn_unless(
        "go|goes|went|gone|going on",
        "continue",
        &["go|goes|went|gone|going on disk"],
    ),
    turn("get|gets on", "make progress"),
    turn("come|comes|came|coming back", "reload, return, recover"),
    turn("take|takes|took|taken back", "return"),
    turn("give|gives|gave|given back", "restock, return"),
    turn("set|put aside", "quarantine"),
    turn_unless("no|any more", "no longer", &["no|any more … than"]),
    turn_unless(
        "none where|if|that|of|any",
        "`None` if",
        &["none of the|its|their|this|these|those|them|`"],
    ),
    turn_unless(
        "behind it|that|them|a|an|the",
        "after",
        &["behind a|an|the … proxy|balancer"],
    ),
    turn("on the|its|their way", "in flight"),
    turn_unless(
        "stand|stands|stood",
        "is at, is in",
        &["stand|stands|stood for", "stand|stands|stood in for"],
    ),
    turn("is|are|was|were to be", "must be"),
    turn("made|make|makes anew", "recreate"),
    turn(
        "one a file|command|partition|second|line|day|month|seed",
        "one per",
    ),
    turn("one file a", "one file per"),
    turn_unless(
        "take|takes|took|taken up",
        "open",
        &["take|takes|took|taken up memory|space|to"],
    ),
    turn("that there is|are|was|were", "the noun"),
    turn("what there is|are|was|were", "the noun"),
    turn("^what", "the noun first"),
    turn("^who|whose|whom", "the actor first"),
    turn("^where", "\"If X, Y\""),
    turn("^of", "the subject first"),
];
