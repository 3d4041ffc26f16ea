// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** A step of the clock. */
public final class ClockStep extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public ClockStep(long advanceSeconds) {
        set("advance_seconds", advanceSeconds);
    }
}
