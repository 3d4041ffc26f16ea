// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** A refund that was paid to the buyer of an order. */
public final class NewRefund extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewRefund(String reference, Money amount) {
        set("reference", reference);
        set("amount", amount);
    }
}
