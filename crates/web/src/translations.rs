//! Texts of each language.

use crate::{
    desk_texts, japanese, japanese_desk,
    language::{self, Language},
    traditional_chinese, traditional_chinese_desk,
};

impl Language {
    /// Texts of the pages.
    pub(crate) fn texts(self) -> &'static language::Texts {
        match self {
            Self::English => &language::ENGLISH,
            Self::Chinese => &language::CHINESE,
            Self::TraditionalChinese => &traditional_chinese::TRADITIONAL_CHINESE,
            Self::Japanese => &japanese::JAPANESE,
        }
    }
}

impl desk_texts::Texts {
    /// Texts of the operators' desk.
    pub(crate) fn for_language(language: Language) -> &'static Self {
        match language {
            Language::English => &desk_texts::ENGLISH,
            Language::Chinese => &desk_texts::CHINESE,
            Language::TraditionalChinese => &traditional_chinese_desk::TRADITIONAL_CHINESE,
            Language::Japanese => &japanese_desk::JAPANESE,
        }
    }
}
