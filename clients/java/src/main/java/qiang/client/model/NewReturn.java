// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Units of an order to return. */
public final class NewReturn extends Body {
    /** Body without fields. */
    public NewReturn() {
    }

    /**
     * At least 1, at most what is not returned yet. Default: all of that. A request with a quantity needs an
     * `Idempotency-Key`.
     */
    public NewReturn quantity(long quantity) {
        set("quantity", quantity);
        return this;
    }
}
