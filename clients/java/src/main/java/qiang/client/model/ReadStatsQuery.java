// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code readStats}. */
public final class ReadStatsQuery extends Query {
    /**
     * Number of the newest record that the caller has; `Last-Event-ID` takes precedence. A number that this process has
     * not reached counts as 0.
     */
    public ReadStatsQuery after(long after) {
        set("after", after);
        return this;
    }
}
