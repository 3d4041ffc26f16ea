// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** A sale to open, under its key. */
public final class KeyedSale extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public KeyedSale(String idempotencyKey, NewSale sale) {
        set("idempotency_key", idempotencyKey);
        set("sale", sale);
    }
}
