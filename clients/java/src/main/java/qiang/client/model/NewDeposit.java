// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.Map;

/** Money from outside. */
public final class NewDeposit extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewDeposit(long amount, String currency, String reference) {
        set("amount", amount);
        set("currency", currency);
        set("reference", reference);
    }

    /** Up to 20 texts of the shop by name. Users do not see them. */
    public NewDeposit metadata(Map<String, String> metadata) {
        set("metadata", metadata);
        return this;
    }
}
