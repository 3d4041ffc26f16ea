// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** An order of units. */
public final class NewOrder extends Body {
    /** Body without fields. */
    public NewOrder() {
    }

    /** Invitation, for sales by invitation. */
    public NewOrder invitation(String invitation) {
        set("invitation", invitation);
        return this;
    }

    /** Passphrase, for sales by passphrase. */
    public NewOrder passphrase(String passphrase) {
        set("passphrase", passphrase);
        return this;
    }

    /** Units, at least 1. */
    public NewOrder quantity(long quantity) {
        set("quantity", quantity);
        return this;
    }
}
