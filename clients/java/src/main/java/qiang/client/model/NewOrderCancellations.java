// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Held orders of a sale to cancel. Without a filter these are all of them. */
public final class NewOrderCancellations extends Body {
    /** Body without fields. */
    public NewOrderCancellations() {
    }

    /** Only orders after this cursor: `next` of the part before. */
    public NewOrderCancellations after(String after) {
        set("after", after);
        return this;
    }

    /** Only orders from this time on. */
    public NewOrderCancellations createdAfter(Instant createdAfter) {
        set("created_after", createdAfter);
        return this;
    }

    /** Only orders from before this time. */
    public NewOrderCancellations createdBefore(Instant createdBefore) {
        set("created_before", createdBefore);
        return this;
    }

    /** Cancel at most this many orders; default 100. */
    public NewOrderCancellations limit(long limit) {
        set("limit", limit);
        return this;
    }

    /** Only orders of this buyer. */
    public NewOrderCancellations user(String user) {
        set("user", user);
        return this;
    }
}
