// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Amount of a deposit to reverse. */
public final class NewReversal extends Body {
    /** Body without fields. */
    public NewReversal() {
    }

    /**
     * At least 1 minor unit, at most what is not reversed yet, in the deposit's currency. Default: all of that. A
     * request with an amount needs an `Idempotency-Key`.
     */
    public NewReversal amount(Money amount) {
        set("amount", amount);
        return this;
    }
}
