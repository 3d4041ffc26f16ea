// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** A payment that arrived for an order. */
public final class PaymentReport extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public PaymentReport(String order, String reference, Money amount) {
        set("order", order);
        set("reference", reference);
        set("amount", amount);
    }

    /**
     * Time of the payment, by the payment service's clock. A payment within the hold pays the order, even if it is
     * reported a little later. Default: now.
     */
    public PaymentReport paidAt(Instant paidAt) {
        set("paid_at", paidAt);
        return this;
    }

    /** User who paid. If the order is another user's, the report is refused and nothing is recorded. */
    public PaymentReport user(String user) {
        set("user", user);
        return this;
    }
}
