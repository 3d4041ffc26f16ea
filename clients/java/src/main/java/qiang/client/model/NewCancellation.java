// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Units of an order to cancel. */
public final class NewCancellation extends Body {
    /** Body without fields. */
    public NewCancellation() {
    }

    /**
     * At least 1, at most the order's quantity. Default: all units. A request with a quantity needs an
     * `Idempotency-Key`.
     */
    public NewCancellation quantity(long quantity) {
        set("quantity", quantity);
        return this;
    }
}
