//! Placeholders of people and products without pictures: an initial on a tint, both taken from the name.
//! `assets/qiang.js` makes the same ones.

/// Number of tints in the style.
const TINTS: u32 = 8;
/// Prime that keeps the hash small enough for numbers of scripts.
const HASH_MAX: u32 = 4_099;

/// Number of the tint of a name. A name has the same tint on every page.
pub(crate) fn tint(name: &str) -> u32 {
    let hash = |hash: u32, sign: char| (hash * 31 + u32::from(sign)) % HASH_MAX;
    name.chars().fold(0, hash) % TINTS
}

/// First sign of a name that is a letter or a digit, in upper case.
pub(crate) fn initial(name: &str) -> String {
    let sign = name.chars().find(|sign| sign.is_alphanumeric());
    let sign = sign.or_else(|| name.chars().next());
    sign.map_or_else(String::new, |sign| sign.to_uppercase().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_initial_and_one_tint() {
        for (name, expected) in [
            ("ann", "A"),
            ("\u{201c}Phone\u{201d}", "P"),
            ("小明", "小"),
            ("...", "."),
            ("", ""),
        ] {
            assert_eq!(initial(name), expected, "{name}");
            assert!(tint(name) < TINTS, "{name}");
        }
        // The same numbers as in `browser/states.test.mjs`.
        assert_eq!(["ann", "bob", "小明"].map(tint), [4, 0, 7]);
    }
}
