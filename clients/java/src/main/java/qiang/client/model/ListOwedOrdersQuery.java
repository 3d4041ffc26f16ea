// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code listOwedOrders}. */
public final class ListOwedOrdersQuery extends Query {
    /** Orders of sales of this seller. Default: the caller; another seller needs the scope `read:any`. */
    public ListOwedOrdersQuery owner(String owner) {
        set("owner", owner);
        return this;
    }

    /** Orders of all sellers' sales; needs the scope `read:any`. */
    public ListOwedOrdersQuery all(boolean all) {
        set("all", all);
        return this;
    }

    /** Orders after this cursor: `next` of the page before. */
    public ListOwedOrdersQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many orders, each with all its currencies; default 100, at most 1000. */
    public ListOwedOrdersQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
