// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** A withdrawal from a user's account. */
public final class NewWithdrawal extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewWithdrawal(String reference, long amount, String currency) {
        set("reference", reference);
        set("amount", amount);
        set("currency", currency);
    }
}
