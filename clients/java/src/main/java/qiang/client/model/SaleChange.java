// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;
import java.util.List;

/** Changes of a sale: its stock, its terms and its description. Absent fields do not change. */
public final class SaleChange extends Body {
    /** Body without fields. */
    public SaleChange() {
    }

    /**
     * Users admitted to a decision at a time for each 100 units that are left: 100 to 10,000, or 0 for no limit. Nodes
     * follow within seconds.
     */
    public SaleChange admissionPercent(long admissionPercent) {
        set("admission_percent", admissionPercent);
        return this;
    }

    /** Description of the product; null removes it. */
    public SaleChange description(String description) {
        set("description", description);
        return this;
    }

    /** New end: not in the past, and only before the sale ends. */
    public SaleChange endsAt(Instant endsAt) {
        set("ends_at", endsAt);
        return this;
    }

    /** Further pictures of the product, at most 8; none or null removes them. */
    public SaleChange gallery(List<String> gallery) {
        set("gallery", gallery);
        return this;
    }

    /** Image of the product; null removes it. */
    public SaleChange imageUrl(String imageUrl) {
        set("image_url", imageUrl);
        return this;
    }

    /** Price of one unit before the discount: above the unit price, in the sale's currency; null removes it. */
    public SaleChange listPrice(Money listPrice) {
        set("list_price", listPrice);
        return this;
    }

    /** Units that one user may have: 1 up to the stock. A user with more units keeps them. */
    public SaleChange perUserLimit(long perUserLimit) {
        set("per_user_limit", perUserLimit);
        return this;
    }

    /** The seller's id of the product; null removes it. */
    public SaleChange productId(String productId) {
        set("product_id", productId);
        return this;
    }

    /**
     * New start: not in the past, and only until the sale has opened. A sale of up to a million units can move it until
     * it has sold some.
     */
    public SaleChange startsAt(Instant startsAt) {
        set("starts_at", startsAt);
        return this;
    }

    /** Total units for sale, units of users included. At least the units that users have, and at least the limit. */
    public SaleChange stock(long stock) {
        set("stock", stock);
        return this;
    }

    /** Title that users see. */
    public SaleChange title(String title) {
        set("title", title);
        return this;
    }

    /**
     * Price of one unit, in the sale's currency, for orders from then on. Earlier orders keep their price. If the sale
     * accepts more than its price, the price is at least 1. With a `payment_tolerance`, the price is above it.
     */
    public SaleChange unitPrice(Money unitPrice) {
        set("unit_price", unitPrice);
        return this;
    }
}
