// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Extension of the hold of an order. */
public final class NewHoldExtension extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewHoldExtension(long seconds) {
        set("seconds", seconds);
    }
}
