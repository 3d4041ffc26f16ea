"""Pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """Page of a list."""

    data: list[T]
    next: str | None = None
    """Cursor of the next page: the value of its `after`. `None` on the last one."""
    settled: bool | None = None
    """Whether everything decided before the request is in the list. `None` if it does not depend on settlement."""


class Pager(Generic[T]):
    """List that is read page by page. Iterate over it for all entries, or over `pages()`."""

    def __init__(self, fetch: Callable[[str | None], Page[T]], after: str | None, endless: bool) -> None:
        self._fetch = fetch
        self._after = after
        self._endless = endless

    @property
    def cursor(self) -> str | None:
        """Cursor after the last page that was read. Keep that of `list_events`, and continue there later."""
        return self._after

    def page(self) -> Page[T]:
        """Reads the next page. It moves the cursor."""
        page = self._fetch(self._after)
        self._after = page.next or self._after
        return page

    def pages(self) -> Iterator[Page[T]]:
        """Pages up to the end of the list. A page may be short or empty and still have a next one."""
        while True:
            page = self.page()
            yield page
            # The list of events always has a next page: later events are on it.
            if page.next is None or (self._endless and not page.data):
                return

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.data
