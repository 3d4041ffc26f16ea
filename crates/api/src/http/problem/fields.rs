//! Problems of fields and parameters: the place and the fault of each.

use std::borrow::Cow;

use qiang_core::{
    admission::BadAdmissionRatio,
    campaign::CampaignError,
    split::{RulePartsError, SplitError},
    time::WindowError,
};
use qiang_wire::problem::FieldError;

use super::ApiProblem;

impl ApiProblem {
    /// Problem of a field with an impossible value.
    pub(crate) fn invalid_at(pointer: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::invalid(detail).at(pointer)
    }

    /// Names the field that the detail describes.
    pub(crate) fn at(self, pointer: impl Into<Cow<'static, str>>) -> Self {
        self.about(Some(pointer.into()), None)
    }

    /// Names the parameter that the detail describes.
    pub(crate) fn in_parameter(self, parameter: impl Into<Cow<'static, str>>) -> Self {
        self.about(None, Some(parameter.into()))
    }

    fn about(
        mut self,
        pointer: Option<Cow<'static, str>>,
        parameter: Option<Cow<'static, str>>,
    ) -> Self {
        let body = &mut self.0.body;
        body.errors.push(FieldError {
            pointer: pointer.map(Cow::into_owned),
            parameter: parameter.map(Cow::into_owned),
            detail: body.detail.clone().unwrap_or_default(),
        });
        self
    }

    /// Adds the faults of another problem.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.body.errors.extend(other.0.body.errors);
        self
    }

    /// One problem for the faults of several parts of a body; each pointer starts at its part. `None` if there are no
    /// parts. Moves the fields out of the problems of the parts.
    pub(crate) fn from_parts<'a>(
        parts: impl IntoIterator<Item = (String, &'a mut Self)>,
    ) -> Option<Self> {
        let mut errors = Vec::new();
        for (at, problem) in parts {
            let body = &mut problem.0.body;
            if body.errors.is_empty() {
                errors.push(FieldError {
                    pointer: Some(at),
                    parameter: None,
                    detail: body.detail.take().unwrap_or_default(),
                });
                continue;
            }
            for mut error in body.errors.drain(..) {
                let within = error.pointer.unwrap_or_default();
                error.pointer = Some(format!("{at}{}", within.trim_start_matches('#')));
                errors.push(error);
            }
        }
        let mut whole = Self::invalid(errors.first()?.detail.clone());
        whole.0.body.errors = errors;
        Some(whole)
    }

    /// Problem of a body that is refused for several parts, with the place and the fault of each. It is the first final
    /// refusal of a part, otherwise the first limit, otherwise the first failure of the server. `None` if there are no
    /// parts.
    pub(crate) fn first_of(parts: impl IntoIterator<Item = (String, Self)>) -> Option<Self> {
        let (mut faults, mut problems) = (Vec::new(), Vec::new());
        for (at, problem) in parts {
            let body = &problem.0.body;
            faults.push(FieldError {
                pointer: Some(at),
                parameter: None,
                detail: body.detail.clone().unwrap_or_else(|| body.title.clone()),
            });
            problems.push(problem);
        }
        let rank = |problem: &Self| match problem.0.body.status {
            429 => 1,
            500.. => 2,
            _ => 0,
        };
        let mut whole = problems.into_iter().min_by_key(rank)?;
        whole.0.body.errors = faults;
        Some(whole)
    }
}

impl From<BadAdmissionRatio> for ApiProblem {
    fn from(error: BadAdmissionRatio) -> Self {
        Self::invalid_at("#/admission_percent", error.to_string())
    }
}

impl From<CampaignError> for ApiProblem {
    fn from(error: CampaignError) -> Self {
        let pointer = match error {
            CampaignError::Title | CampaignError::TitleControl => "#/title",
            CampaignError::Stock => "#/stock",
            CampaignError::Limit => "#/per_user_limit",
            CampaignError::Hold => "#/hold_seconds",
            CampaignError::Price => "#/unit_price/amount",
            CampaignError::PaymentPolicy => "#/payment_policy",
            CampaignError::Description => "#/description",
            CampaignError::ImageUrl => "#/image_url",
            CampaignError::Gallery => "#/gallery",
            CampaignError::ListPrice => "#/list_price/amount",
            CampaignError::HasOpened => "#/starts_at",
            CampaignError::InThePast | CampaignError::Window => {
                return Self::invalid(error.to_string());
            }
        };
        Self::invalid_at(pointer, error.to_string())
    }
}

impl From<WindowError> for ApiProblem {
    fn from(error: WindowError) -> Self {
        let pointer = match error {
            WindowError::Start => "#/starts_at",
            WindowError::Empty | WindowError::End => "#/ends_at",
        };
        Self::invalid_at(pointer, error.to_string())
    }
}

impl From<RulePartsError> for ApiProblem {
    fn from(error: RulePartsError) -> Self {
        let (pointer, detail) = match error {
            RulePartsError::MaxMissing => ("#/split/max", "the rule `normal` needs `max`"),
            RulePartsError::MaxGiven { .. } => ("#/split/max", "only the rule `normal` has `max`"),
            RulePartsError::MinGiven => ("#/split/min", "the rule `equal` has no `min`"),
        };
        Self::invalid_at(pointer, detail)
    }
}

impl From<SplitError> for ApiProblem {
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
