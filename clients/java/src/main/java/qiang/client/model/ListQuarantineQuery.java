// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code listQuarantine}. */
public final class ListQuarantineQuery extends Query {
    /** Entries of this partition only. */
    public ListQuarantineQuery partition(long partition) {
        set("partition", partition);
        return this;
    }

    /** Entries after this cursor: `next` of the page before. */
    public ListQuarantineQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListQuarantineQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
