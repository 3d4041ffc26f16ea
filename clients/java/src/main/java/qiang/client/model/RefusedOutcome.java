// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Outcome of a claim that was not granted. */
public enum RefusedOutcome {
    UNKNOWN_CAMPAIGN("unknown_campaign"),
    PAUSED("paused"),
    NOT_STARTED("not_started"),
    ENDED("ended"),
    LIMIT_REACHED("limit_reached"),
    SOLD_OUT("sold_out"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    RefusedOutcome(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static RefusedOutcome of(String value) {
        for (RefusedOutcome one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
