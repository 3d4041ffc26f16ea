//! Problems of one field: which one, and what is wrong with it.

use std::borrow::Cow;

use qiang_core::{
    admission::BadAdmissionRatio,
    campaign::CampaignError,
    split::{RulePartsError, SplitError},
    time::WindowError,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::Problem;

/// A field that is wrong.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FieldError)]
pub(crate) struct FieldError {
    /// Where it is in the body: a JSON pointer (RFC 6901) behind `#`.
    #[schema(example = "#/unit_price/amount")]
    pointer: Cow<'static, str>,
    /// What is wrong with it.
    #[schema(example = "a unit price is 0 or more")]
    detail: Cow<'static, str>,
}

impl Problem {
    /// A field that asks for something impossible.
    pub(crate) fn invalid_at(pointer: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::invalid(detail).at(pointer)
    }

    /// Says which field its detail is about.
    pub(crate) fn at(mut self, pointer: impl Into<Cow<'static, str>>) -> Self {
        let body = &mut self.0.body;
        body.errors.push(FieldError {
            pointer: pointer.into(),
            detail: body.detail.clone(),
        });
        self
    }

    /// What is wrong with parts of a body, as one problem of the whole: each field is named from where its part is.
    /// None if there is none. Takes the fields from the problems of the parts.
    pub(crate) fn of_parts<'a>(
        parts: impl IntoIterator<Item = (String, &'a mut Self)>,
    ) -> Option<Self> {
        let mut errors = Vec::new();
        for (at, problem) in parts {
            let body = &mut problem.0.body;
            if body.errors.is_empty() {
                errors.push(FieldError {
                    pointer: at.into(),
                    detail: std::mem::take(&mut body.detail),
                });
                continue;
            }
            for FieldError { pointer, detail } in body.errors.drain(..) {
                let pointer = format!("{at}{}", pointer.trim_start_matches('#')).into();
                errors.push(FieldError { pointer, detail });
            }
        }
        let mut whole = Self::invalid(errors.first()?.detail.clone());
        whole.0.body.errors = errors;
        Some(whole)
    }
}

impl From<BadAdmissionRatio> for Problem {
    fn from(error: BadAdmissionRatio) -> Self {
        Self::invalid_at("#/admission_percent", error.to_string())
    }
}

impl From<CampaignError> for Problem {
    fn from(error: CampaignError) -> Self {
        let pointer = match error {
            CampaignError::Title | CampaignError::TitleControl => "#/title",
            CampaignError::Stock => "#/stock",
            CampaignError::Limit => "#/per_user_limit",
            CampaignError::Hold => "#/hold_seconds",
            CampaignError::Price => "#/unit_price/amount",
            CampaignError::Description => "#/description",
            CampaignError::ImageUrl => "#/image_url",
            CampaignError::HasOpened => "#/starts_at",
            CampaignError::InThePast | CampaignError::Window => {
                return Self::invalid(error.to_string());
            }
        };
        Self::invalid_at(pointer, error.to_string())
    }
}

impl From<WindowError> for Problem {
    fn from(error: WindowError) -> Self {
        let pointer = match error {
            WindowError::Start => "#/starts_at",
            WindowError::Empty | WindowError::End => "#/ends_at",
        };
        Self::invalid_at(pointer, error.to_string())
    }
}

impl From<RulePartsError> for Problem {
    fn from(error: RulePartsError) -> Self {
        let (pointer, detail) = match error {
            RulePartsError::MaxMissing => ("#/split/max", "the rule `normal` needs `max`"),
            RulePartsError::MaxGiven { .. } => ("#/split/max", "only the rule `normal` has `max`"),
            RulePartsError::MinGiven => ("#/split/min", "the rule `equal` has no `min`"),
        };
        Self::invalid_at(pointer, detail)
    }
}

impl From<SplitError> for Problem {
    fn from(error: SplitError) -> Self {
        let pointer = match error {
            SplitError::CountZero | SplitError::CountAboveMax { .. } => "#/shares",
            SplitError::MinNotPositive { .. } | SplitError::MinAboveMax { .. } => "#/split/min",
            SplitError::TotalNotPositive { .. }
            | SplitError::TotalBelowMin { .. }
            | SplitError::TotalAboveMax { .. } => "#/total/amount",
        };
        Self::invalid_at(pointer, error.to_string())
    }
}
