// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Money to move to another user. */
public final class NewTransfer extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewTransfer(String reference, String to, long amount, String currency) {
        set("reference", reference);
        set("to", to);
        set("amount", amount);
        set("currency", currency);
    }
}
