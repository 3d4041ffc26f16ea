// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Filters of {@code listWithdrawals}. */
public final class ListWithdrawalsQuery extends Query {
    /** Those of this user. Default: all that the caller sees. */
    public ListWithdrawalsQuery user(String user) {
        set("user", user);
        return this;
    }

    /** Those with this reference of the payment service. */
    public ListWithdrawalsQuery reference(String reference) {
        set("reference", reference);
        return this;
    }

    /** Those from this time on. */
    public ListWithdrawalsQuery createdAfter(Instant createdAfter) {
        set("created_after", createdAfter);
        return this;
    }

    /** Those from before this time. */
    public ListWithdrawalsQuery createdBefore(Instant createdBefore) {
        set("created_before", createdBefore);
        return this;
    }

    /** Those after this cursor: `next` of the page before. */
    public ListWithdrawalsQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListWithdrawalsQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
