// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Filters of {@code listUserOrders}. */
public final class ListUserOrdersQuery extends Query {
    /** Orders in this state. */
    public ListUserOrdersQuery state(OrderState state) {
        set("state", state);
        return this;
    }

    /** Orders from this time on. */
    public ListUserOrdersQuery createdAfter(Instant createdAfter) {
        set("created_after", createdAfter);
        return this;
    }

    /** Orders from before this time. */
    public ListUserOrdersQuery createdBefore(Instant createdBefore) {
        set("created_before", createdBefore);
        return this;
    }

    /** Orders after this cursor: `next` of the page before. */
    public ListUserOrdersQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListUserOrdersQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
