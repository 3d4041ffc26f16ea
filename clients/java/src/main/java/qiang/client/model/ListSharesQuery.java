// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code listShares}. */
public final class ListSharesQuery extends Query {
    /** Only grants with this number or a higher one. */
    public ListSharesQuery fromNumber(long fromNumber) {
        set("from_number", fromNumber);
        return this;
    }

    /** Items after this cursor: `next` of the page before. */
    public ListSharesQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListSharesQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
