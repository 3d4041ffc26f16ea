//! Covers of red packets: their pictures, drawn over the flap of an envelope. The colours are in `assets/cover.css`.

use serde_json::Value;

use crate::language::Texts;

/// Covers that the API knows, each with the shapes of its picture: 360 wide, 250 high.
const COVERS: [(&str, &str); 6] = [
    ("classic", ""),
    ("blossom", include_str!("../assets/covers/blossom.svg")),
    ("lantern", include_str!("../assets/covers/lantern.svg")),
    ("cloud", include_str!("../assets/covers/cloud.svg")),
    ("birthday", include_str!("../assets/covers/birthday.svg")),
    ("wedding", include_str!("../assets/covers/wedding.svg")),
];

/// A cover to show or to choose.
#[derive(Clone, Copy)]
pub(crate) struct CoverLook {
    /// The API's name, which is also part of its class in styles.
    pub(crate) name: &'static str,
    /// Shapes of its picture; empty for a plain one.
    pub(crate) shapes: &'static str,
}

impl CoverLook {
    /// All covers, the usual one first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        COVERS
            .map(|(name, shapes)| Self { name, shapes })
            .into_iter()
    }

    /// Cover of a packet. One that this version does not know looks like the usual one.
    pub(crate) fn of_packet(packet: &Value) -> Self {
        let name = packet["cover"].as_str().unwrap_or_default();
        let [(usual, plain), ..] = COVERS;
        let known = Self::all().find(|cover| cover.name == name);
        known.unwrap_or(Self {
            name: usual,
            shapes: plain,
        })
    }

    /// Name for people.
    pub(crate) fn label(self, texts: &Texts) -> &'static str {
        match self.name {
            "blossom" => texts.cover_blossom,
            "lantern" => texts.cover_lantern,
            "cloud" => texts.cover_cloud,
            "birthday" => texts.cover_birthday,
            "wedding" => texts.cover_wedding,
            _ => texts.cover_classic,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use qiang_core::campaign::Cover;
    use serde_json::json;

    use super::*;
    use crate::language::Language;

    #[test]
    fn covers_are_those_of_the_core_and_each_has_a_name_of_its_own() {
        let core: Vec<_> = Cover::ALL.iter().map(|cover| cover.name()).collect();
        let own: Vec<_> = CoverLook::all().map(|cover| cover.name).collect();
        assert_eq!(own, core);
        for language in Language::ALL {
            let labels: BTreeSet<_> = CoverLook::all()
                .map(|cover| cover.label(language.texts()))
                .collect();
            assert_eq!(labels.len(), core.len(), "{language:?}");
        }
    }

    #[test]
    fn an_unknown_cover_looks_like_the_usual_one() {
        for (cover, expected) in [
            (json!("wedding"), "wedding"),
            (json!("hologram"), "classic"),
            (Value::Null, "classic"),
        ] {
            let look = CoverLook::of_packet(&json!({ "cover": cover }));
            assert_eq!(look.name, expected);
        }
    }

    /// Shapes need neither styles nor colours of their own, which the policy for content forbids.
    #[test]
    fn pictures_are_paths_and_nothing_else() {
        for cover in CoverLook::all() {
            for line in cover.shapes.lines() {
                let is_path = line.starts_with("<path d=\"M")
                    || line.starts_with("<path class=\"line\" d=\"M");
                assert!(is_path && line.ends_with("\"/>"), "{}: {line}", cover.name);
                assert_eq!(line.matches('<').count(), 1, "{}", cover.name);
            }
        }
    }
}
