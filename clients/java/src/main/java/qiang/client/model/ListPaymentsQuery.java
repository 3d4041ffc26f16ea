// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Filters of {@code listPayments}. */
public final class ListPaymentsQuery extends Query {
    /** Payments for orders of this buyer. Default: all that the caller sees. */
    public ListPaymentsQuery user(String user) {
        set("user", user);
        return this;
    }

    /** Payments with this outcome. */
    public ListPaymentsQuery outcome(String outcome) {
        set("outcome", outcome);
        return this;
    }

    /** Payments with this reference of the payment service. */
    public ListPaymentsQuery reference(String reference) {
        set("reference", reference);
        return this;
    }

    /** Payments from this time on. */
    public ListPaymentsQuery createdAfter(Instant createdAfter) {
        set("created_after", createdAfter);
        return this;
    }

    /** Payments from before this time. */
    public ListPaymentsQuery createdBefore(Instant createdBefore) {
        set("created_before", createdBefore);
        return this;
    }

    /** Payments after this cursor: `next` of the page before. */
    public ListPaymentsQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListPaymentsQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
