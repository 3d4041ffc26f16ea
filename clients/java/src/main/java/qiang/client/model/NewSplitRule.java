// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Rule that splits the total into shares. */
public final class NewSplitRule extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewSplitRule(SplitRuleName rule) {
        set("rule", rule);
    }

    /** The largest share, in minor units; `normal` needs it, the others have none. */
    public NewSplitRule max(long max) {
        set("max", max);
        return this;
    }

    /** The smallest share, in minor units; default 1. Not for `equal`. */
    public NewSplitRule min(long min) {
        set("min", min);
        return this;
    }
}
