// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Filters of {@code listAllOrders}. */
public final class ListAllOrdersQuery extends Query {
    /** Orders of this sale. Its seller sees all of them. */
    public ListAllOrdersQuery campaign(String campaign) {
        set("campaign", campaign);
        return this;
    }

    /** Orders of this buyer. Default: all that the caller sees. */
    public ListAllOrdersQuery user(String user) {
        set("user", user);
        return this;
    }

    /**
     * Orders with this reference in their metadata, by id, as far as the caller may read the metadata. Not together
     * with other filters.
     */
    public ListAllOrdersQuery reference(String reference) {
        set("reference", reference);
        return this;
    }

    /** Orders in this state. */
    public ListAllOrdersQuery state(OrderState state) {
        set("state", state);
        return this;
    }

    /** Orders from this time on. */
    public ListAllOrdersQuery createdAfter(Instant createdAfter) {
        set("created_after", createdAfter);
        return this;
    }

    /** Orders from before this time. */
    public ListAllOrdersQuery createdBefore(Instant createdBefore) {
        set("created_before", createdBefore);
        return this;
    }

    /** Orders after this cursor: `next` of the page before. */
    public ListAllOrdersQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListAllOrdersQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
