// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code listPostings}. */
public final class ListPostingsQuery extends Query {
    /** Postings of this kind. */
    public ListPostingsQuery kind(PostingKind kind) {
        set("kind", kind);
        return this;
    }

    /** Postings after this cursor: `next` of the page before. */
    public ListPostingsQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListPostingsQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
