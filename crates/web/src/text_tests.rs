//! Tests of the texts of pages and desk in all languages.

use serde_json::Value;

use crate::{desk_texts::Texts as Desk, language::Language};

/// Pages and desk of a language, as names and texts.
fn tables(language: Language) -> [Value; 2] {
    let pages = serde_json::to_value(language.texts());
    let desk = serde_json::to_value(Desk::for_language(language));
    [pages, desk].map(Result::unwrap)
}

/// Names of the values in a text, without repetition.
fn values(text: &str) -> Vec<&str> {
    let parts = text.split('{').skip(1);
    let mut names: Vec<_> = parts
        .map(|rest| rest.split(['}', ':']).next().unwrap())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn all_languages_have_all_texts_with_the_same_values() {
    let english = tables(Language::English);
    for language in Language::ALL {
        for (table, english) in tables(language).iter().zip(&english) {
            let (table, english) = (table.as_object().unwrap(), english.as_object().unwrap());
            assert_eq!(table.len(), english.len());
            for (name, text) in english {
                let (text, translated) = (text.as_str().unwrap(), table[name].as_str().unwrap());
                assert!(!translated.trim().is_empty(), "{language:?} {name}");
                // Chinese readers count what is taken, English readers what is left.
                if !name.starts_with("packet_") {
                    assert_eq!(values(text), values(translated), "{language:?} {name}");
                }
            }
        }
    }
}

/// Counts of these two lists, for which each language chooses, are all given.
#[test]
fn texts_of_counts_name_no_unknown_value() {
    let known = [
        "money_left",
        "money_taken",
        "remaining",
        "supply",
        "taken",
        "total",
    ];
    for language in Language::ALL {
        let texts = language.texts();
        for text in [texts.packet_left, texts.packet_counts] {
            let names = values(text);
            assert!(
                names.iter().all(|name| known.contains(name)),
                "{language:?} {names:?}"
            );
        }
    }
}

/// Only English has words for one thing that differ from words for several.
#[test]
fn only_english_has_plurals() {
    for language in Language::ALL {
        let all = tables(language).map(|table| table.to_string());
        let has = all.iter().any(|text| text.contains(":unit|units}"));
        assert_eq!(has, language == Language::English, "{language:?}");
        if !has {
            assert!(!all.iter().any(|text| text.contains('|')), "{language:?}");
        }
    }
}

/// Signs that traditional Chinese writes in another way.
const SIMPLIFIED: &str = "红发个们这为时间网络请认证币种录账户单购买开关闭复说应处运营权额够计数据实标题状态类还没无领释条\
    项编号钟点击图链词务报错误过统记让给对话卖讯边问钱财视频业产";
/// Words of the mainland, for which Taiwan has others.
const MAINLAND: [&str; 14] = [
    "網絡",
    "信息",
    "默認",
    "刷新",
    "登錄",
    "賬",
    "軟件",
    "鏈接",
    "質量",
    "數據庫",
    "服務器",
    "支付",
    "屏幕",
    "用戶",
];

#[test]
fn traditional_texts_have_no_simplified_sign_and_no_word_of_the_mainland() {
    for table in tables(Language::TraditionalChinese) {
        for (name, text) in table.as_object().unwrap() {
            let text = text.as_str().unwrap();
            let sign = text.chars().find(|sign| SIMPLIFIED.contains(*sign));
            assert_eq!(sign, None, "{name}: {text}");
            let word = MAINLAND.iter().find(|word| text.contains(**word));
            assert_eq!(word, None, "{name}: {text}");
        }
    }
}
