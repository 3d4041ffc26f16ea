// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A sale to open. */
public final class NewSale extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewSale(String title, long stock, Money unitPrice) {
        set("title", title);
        set("stock", stock);
        set("unit_price", unitPrice);
    }

    /**
     * Failures that a grant survives before it is acknowledged; default: fsync (embedded), memory or replica (Redis).
     */
    public NewSale ack(AckLevel ack) {
        set("ack", ack);
        return this;
    }

    /**
     * Users admitted to a decision at a time for each 100 units that are left: 100 to 10000, or 0 for all; default 150.
     * Other claims wait, and most of them end with sold out. A sale that is spread over partitions admits all and
     * ignores this value.
     */
    public NewSale admissionPercent(long admissionPercent) {
        set("admission_percent", admissionPercent);
        return this;
    }

    /** Users who may take part; default: all users. */
    public NewSale audience(Audience audience) {
        set("audience", audience);
        return this;
    }

    /** Description of the product; may contain line breaks. */
    public NewSale description(String description) {
        set("description", description);
        return this;
    }

    /** Default: 24 hours after the start. */
    public NewSale endsAt(Instant endsAt) {
        set("ends_at", endsAt);
        return this;
    }

    /** Further pictures of the product, at most 8, in their order. Each is like `image_url`. */
    public NewSale gallery(List<String> gallery) {
        set("gallery", gallery);
        return this;
    }

    /** Seconds for which an unpaid order keeps its units; default 900. */
    public NewSale holdSeconds(long holdSeconds) {
        set("hold_seconds", holdSeconds);
        return this;
    }

    /**
     * The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it
     * finds the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
     */
    public NewSale id(String id) {
        set("id", id);
        return this;
    }

    /** Image of the product: `https://…`, or a path of the shop's own site, which begins with `/`. */
    public NewSale imageUrl(String imageUrl) {
        set("image_url", imageUrl);
        return this;
    }

    /** Price of one unit before the discount: above `unit_price`, in its currency. Buyers see the difference. */
    public NewSale listPrice(Money listPrice) {
        set("list_price", listPrice);
        return this;
    }

    /** Up to 20 texts of the shop by name. Users do not see them. */
    public NewSale metadata(Map<String, String> metadata) {
        set("metadata", metadata);
        return this;
    }

    /**
     * Payments other than the price that pay an order. `owed`: none; another amount is refunded. `accept_over`: each
     * larger amount. `accept_with_tolerance`: amounts that differ from the price by at most `payment_tolerance`. The
     * seller receives the whole payment; if the order is returned, all of it is refunded. The policy never changes. A
     * sale at 0 has `owed`. Default: `owed`.
     */
    public NewSale paymentPolicy(PaymentPolicy paymentPolicy) {
        set("payment_policy", paymentPolicy);
        return this;
    }

    /**
     * For `accept_with_tolerance` only: 0 or more, below the unit price, in its currency. It applies to the whole
     * order, for any number of units. An order with an amount not above the tolerance accepts its exact amount only.
     */
    public NewSale paymentTolerance(Money paymentTolerance) {
        set("payment_tolerance", paymentTolerance);
        return this;
    }

    /** Units that one user may have; default 1. */
    public NewSale perUserLimit(long perUserLimit) {
        set("per_user_limit", perUserLimit);
        return this;
    }

    /** The seller's id of the product. Sales of one product are its rounds. Visible ASCII characters. */
    public NewSale productId(String productId) {
        set("product_id", productId);
        return this;
    }

    /**
     * The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do not
     * see it.
     */
    public NewSale reference(String reference) {
        set("reference", reference);
        return this;
    }

    /**
     * Requirements of a claim before it is decided: `ticket`, a grab ticket; `order_check`, approval by the shop.
     * Default: none.
     */
    public NewSale requirements(List<Requirement> requirements) {
        set("requirements", requirements);
        return this;
    }

    /** Seller; default: the caller. Another seller needs the scope `campaigns:write:any`. */
    public NewSale seller(String seller) {
        set("seller", seller);
        return this;
    }

    /** Default: now. */
    public NewSale startsAt(Instant startsAt) {
        set("starts_at", startsAt);
        return this;
    }

    /**
     * Whether the reference is unique: if another campaign of the seller has it as a unique one, this one is refused.
     * Default: no.
     */
    public NewSale uniqueReference(boolean uniqueReference) {
        set("unique_reference", uniqueReference);
        return this;
    }

    /** Whether claims wait in a queue and are decided in order of arrival; default: no. */
    public NewSale waitingRoom(boolean waitingRoom) {
        set("waiting_room", waitingRoom);
        return this;
    }
}
