// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code listDeliveries}. */
public final class ListDeliveriesQuery extends Query {
    /** Attempts at the event with this id, which is its `webhook-id`. Not together with `order`. */
    public ListDeliveriesQuery event(String event) {
        set("event", event);
        return this;
    }

    /** Attempts at events of this order. */
    public ListDeliveriesQuery order(String order) {
        set("order", order);
        return this;
    }

    /** Attempts that left their event in this state. */
    public ListDeliveriesQuery state(OrderState state) {
        set("state", state);
        return this;
    }

    /** Attempts after this cursor: `next` of the page before. */
    public ListDeliveriesQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListDeliveriesQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
