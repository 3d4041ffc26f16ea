// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code listEvents}. */
public final class ListEventsQuery extends Query {
    /** Items after this cursor: `next` of the page before. */
    public ListEventsQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListEventsQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
