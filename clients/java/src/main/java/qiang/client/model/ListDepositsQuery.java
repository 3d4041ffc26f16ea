// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Filters of {@code listDeposits}. */
public final class ListDepositsQuery extends Query {
    /** Those of this user. Default: all that the caller sees. */
    public ListDepositsQuery user(String user) {
        set("user", user);
        return this;
    }

    /** Those with this reference of the payment service. */
    public ListDepositsQuery reference(String reference) {
        set("reference", reference);
        return this;
    }

    /** Those from this time on. */
    public ListDepositsQuery createdAfter(Instant createdAfter) {
        set("created_after", createdAfter);
        return this;
    }

    /** Those from before this time. */
    public ListDepositsQuery createdBefore(Instant createdBefore) {
        set("created_before", createdBefore);
        return this;
    }

    /** Those after this cursor: `next` of the page before. */
    public ListDepositsQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListDepositsQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
