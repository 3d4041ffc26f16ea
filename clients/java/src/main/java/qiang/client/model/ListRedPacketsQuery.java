// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Filters of {@code listRedPackets}. */
public final class ListRedPacketsQuery extends Query {
    /** Campaigns of this sender or seller. Default: the caller; another user needs the scope `read:any`. */
    public ListRedPacketsQuery owner(String owner) {
        set("owner", owner);
        return this;
    }

    /** Campaigns of all users; needs the scope `read:any`. */
    public ListRedPacketsQuery all(boolean all) {
        set("all", all);
        return this;
    }

    /** Sales of this product, which are its rounds, ordered by start. Without it, the order is by id. */
    public ListRedPacketsQuery productId(String productId) {
        set("product_id", productId);
        return this;
    }

    /** Campaigns with this reference in their metadata, by id. Not together with `product_id`, `open` or `order`. */
    public ListRedPacketsQuery reference(String reference) {
        set("reference", reference);
        return this;
    }

    /** draft, scheduled, live, paused, ended or closed. */
    public ListRedPacketsQuery phase(Phase phase) {
        set("phase", phase);
        return this;
    }

    /**
     * Only sales that every user may buy in, of all sellers: without an audience, and with `phase` `scheduled` or
     * `live`. Needs no scope. A page may have fewer sales than `limit` and still a `next`.
     */
    public ListRedPacketsQuery open(boolean open) {
        set("open", open);
        return this;
    }

    /** Includes archived campaigns. */
    public ListRedPacketsQuery archived(boolean archived) {
        set("archived", archived);
        return this;
    }

    /** Campaigns that were created from this time on. */
    public ListRedPacketsQuery createdAfter(Instant createdAfter) {
        set("created_after", createdAfter);
        return this;
    }

    /** Campaigns that were created before this time. */
    public ListRedPacketsQuery createdBefore(Instant createdBefore) {
        set("created_before", createdBefore);
        return this;
    }

    /** `oldest` (the default) or `newest` first, by id; rounds of a product are ordered by start. */
    public ListRedPacketsQuery order(String order) {
        set("order", order);
        return this;
    }

    /** Campaigns after this cursor: `next` of the page before. */
    public ListRedPacketsQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 50, at most 100. */
    public ListRedPacketsQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
