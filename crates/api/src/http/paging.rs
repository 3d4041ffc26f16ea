//! Pages of lists: their size, their cursors, and the link to the next page.

use std::{fmt, num::NonZero, str::FromStr};

use axum::{
    Json,
    http::{HeaderValue, Uri, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use qiang_core::ports::TimeRange;
use qiang_wire::lists::List;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::{
    compression::Compressible,
    problem::ApiProblem,
    wire::{Rfc3339, Text},
};

/// Separates the name of a list from the position, in a decoded cursor.
const SEPARATOR: char = ':';

/// A list that is read in pages.
#[derive(Debug)]
pub(crate) struct PagedList {
    /// Its name inside cursors, so that no other list takes them.
    name: &'static str,
    /// Page size: the default, and the maximum.
    limits: (u32, u32),
    /// Whether a page may be empty although later ones are not, because a filter rejected all that it read.
    has_gaps: bool,
}

impl PagedList {
    /// A list of small items.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self::with_limits(name, 100, 1_000)
    }

    /// A list with its default and its maximum page size.
    pub(crate) const fn with_limits(name: &'static str, default: u32, max: u32) -> Self {
        Self {
            name,
            limits: (default, max),
            has_gaps: false,
        }
    }

    /// The same list, whose pages may be empty although later ones are not.
    pub(crate) const fn with_gaps(self) -> Self {
        Self {
            has_gaps: true,
            ..self
        }
    }

    /// Checks the parameters of a request. Positions of the list have the type `P`.
    ///
    /// # Errors
    /// `bad-request`: a limit out of bounds, or a cursor of another list.
    pub(crate) fn page<P: FromStr>(
        &self,
        after: Option<&Text<Cursor>>,
        limit: Option<u32>,
    ) -> Result<Page<'_, P>, ApiProblem> {
        let (default, max) = self.limits;
        let limit = limit.unwrap_or(default);
        if !(1..=max).contains(&limit) {
            let detail = format!("a limit is 1 to {max}");
            return Err(ApiProblem::bad_request(detail).in_parameter("limit"));
        }
        let after = after
            .map(|Text(cursor)| self.position(cursor))
            .transpose()?;
        Ok(Page {
            list: self,
            after,
            limit,
        })
    }

    fn position<P: FromStr>(&self, Cursor(text): &Cursor) -> Result<P, ApiProblem> {
        let own = text
            .split_once(SEPARATOR)
            .filter(|(name, _)| *name == self.name);
        let position = own.and_then(|(_, position)| position.parse().ok());
        position.ok_or_else(wrong_list)
    }
}

/// Problem of a cursor that another list gave.
pub(crate) fn wrong_list() -> ApiProblem {
    let detail = "it is not a cursor of this list: use `next` of the page before";
    ApiProblem::bad_request(detail).in_parameter("after")
}

/// Cursor of a list, decoded: the list's name and a position. Clients see it as opaque text in base64url.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor(String);

impl Cursor {
    fn new(list: &str, position: impl fmt::Display) -> Self {
        Self(format!("{list}{SEPARATOR}{position}"))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(&self.0))
    }
}

impl FromStr for Cursor {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let decoded = BASE64.decode(text).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        decoded
            .map(Self)
            .ok_or("it is not a cursor: use `next` of the page before")
    }
}

/// A requested page.
#[derive(Debug)]
pub(crate) struct Page<'a, P> {
    list: &'a PagedList,
    /// Position after which it starts.
    pub(crate) after: Option<P>,
    /// Maximum number of its items.
    limit: u32,
}

impl<P: fmt::Display> Page<'_, P> {
    /// Number of items to read. One more than the page has shows whether there is another page.
    pub(crate) fn reads(&self) -> u32 {
        self.limit + 1
    }

    /// Truncates what was read to the page. Returns the start of the next page, if there is one.
    pub(crate) fn cut<T>(&self, items: &mut Vec<T>, position: impl Fn(&T) -> P) -> Option<P> {
        let is_last = items.len() <= self.limit as usize;
        items.truncate(self.limit as usize);
        items.last().filter(|_| !is_last).map(position)
    }

    /// Text of the cursor of a position in this list.
    pub(crate) fn cursor(&self, position: P) -> String {
        Cursor::new(self.list.name, position).to_string()
    }

    /// Body of the page, with a link to the next page. A page without items has no link, so that following links ends
    /// where later items are still to come; a list with gaps links each page but the last one.
    pub(crate) fn answer<W: Serialize>(
        &self,
        uri: &Uri,
        data: Vec<W>,
        next: Option<P>,
        settled: Option<bool>,
    ) -> Response {
        let next = next.map(|position| self.cursor(position));
        let is_linked = !data.is_empty() || self.list.has_gaps;
        let linked = next.as_ref().filter(|_| is_linked);
        let link = linked.map(|next| link(uri, next));
        let mut response = Json(List {
            data,
            next,
            settled,
        })
        .into_response();
        response.extensions_mut().insert(Compressible::Fresh);
        if let Some(link) = link.and_then(|link| HeaderValue::try_from(link).ok()) {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }
}

/// Range from `created_after`, which is in it, until `created_before`, which is not.
///
/// # Errors
/// `invalid`: no time is in the range.
pub(crate) fn created_range(
    after: Option<Rfc3339>,
    before: Option<Rfc3339>,
) -> Result<TimeRange, ApiProblem> {
    let range = TimeRange {
        from: after.map(|Rfc3339(at)| at),
        before: before.map(|Rfc3339(at)| at),
    };
    let problem = || {
        ApiProblem::invalid("`created_after` is earlier than `created_before`")
            .in_parameter("created_after")
            .in_parameter("created_before")
    };
    (!range.is_empty()).then_some(range).ok_or_else(problem)
}

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListOrder {
    /// By id, ascending.
    Oldest,
    /// By id, descending.
    Newest,
}

/// Parameters of a list without filters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Items after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    pub(crate) after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<u32>,
}

/// Parameters of a list of a campaign's grants, ordered by number.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GrantPageQuery {
    /// Only grants with this number or a higher one.
    #[param(value_type = Option<u32>, minimum = 1)]
    from_number: Option<NonZero<u32>>,
    /// Items after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl GrantPageQuery {
    /// The requested page, and the number after which it starts.
    ///
    /// # Errors
    /// See [`PagedList::page`].
    pub(crate) fn page<'a>(&self, list: &'a PagedList) -> Result<(Page<'a, u32>, u32), ApiProblem> {
        let page: Page<'a, u32> = list.page(self.after.as_ref(), self.limit)?;
        let before = self.from_number.map_or(0, |number| number.get() - 1);
        let after = page.after.unwrap_or_default().max(before);
        Ok((page, after))
    }
}

/// Reference to the next page: the same request with another `after` (RFC 8288).
fn link(uri: &Uri, after: &str) -> String {
    let asked = uri.query().unwrap_or_default().split('&');
    let kept = asked.filter(|one| !one.is_empty() && !one.starts_with("after="));
    let query: String = kept.map(|one| format!("{one}&")).collect();
    // No query can end the reference early: `Uri` accepts neither `<` nor `>`.
    format!("<{}?{query}after={after}>; rel=\"next\"", uri.path())
}

#[cfg(test)]
mod tests {
    use qiang_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_next_page_is_the_same_request_from_there_on() {
        let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
        let check = |asked: &str, query: &str| {
            let linked = link(&asked.parse().unwrap(), id);
            let expected = format!("</v1/sales?{query}after={id}>; rel=\"next\"");
            assert_eq!(linked, expected);
        };
        check("/v1/sales", "");
        check("/v1/sales?limit=2&all=true", "limit=2&all=true&");
        check("/v1/sales?after=x&phase=live&after=y", "phase=live&");
        check("/v1/sales?owner=a%3E;x", "owner=a%3E;x&");
        assert!("/v1/sales?owner=a>;x".parse::<Uri>().is_err());
    }

    #[test]
    fn a_cursor_belongs_to_one_list() {
        let (orders, shares) = (PagedList::new("orders"), PagedList::new("shares"));
        let cursor: Cursor = Cursor::new("orders", 7).to_string().parse().unwrap();
        let page = orders
            .page::<u32>(Some(&Text(cursor.clone())), None)
            .unwrap();
        assert_eq!((page.after, page.reads()), (Some(7), 101));
        assert!(shares.page::<u32>(Some(&Text(cursor)), None).is_err());
        assert!(
            orders
                .page::<u8>(Some(&Text(Cursor::new("orders", 700))), None)
                .is_err()
        );
        assert!(orders.page::<u32>(None, Some(0)).is_err());
        assert!(orders.page::<u32>(None, Some(1_001)).is_err());
        assert!("7".parse::<Cursor>().is_err());
    }

    #[test]
    fn an_empty_page_is_linked_only_where_gaps_are() {
        let uri: Uri = "/v1/orders".parse().unwrap();
        for (list, items, is_linked) in [
            (PagedList::new("events"), vec![], false),
            (PagedList::new("events"), vec![1], true),
            (PagedList::new("orders").with_gaps(), vec![], true),
        ] {
            let page = list.page::<u32>(None, None).unwrap();
            let answer = page.answer(&uri, items, Some(7), None);
            assert_eq!(answer.headers().contains_key(header::LINK), is_linked);
            let answer = page.answer(&uri, Vec::<u32>::new(), None, None);
            assert!(!answer.headers().contains_key(header::LINK));
        }
    }

    #[test]
    fn a_range_of_times_is_not_empty() {
        let at = |millis| Some(Rfc3339(Timestamp::from_millis(millis)));
        assert!(created_range(at(1), at(2)).is_ok());
        assert!(created_range(at(2), None).is_ok());
        for (after, before) in [(at(2), at(2)), (at(3), at(2))] {
            assert!(created_range(after, before).is_err());
        }
    }
}
