// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** State of a queue entry. */
public enum PlaceState {
    WAITING("waiting"),
    GRANTED("granted"),
    SOLD_OUT("sold_out"),
    LIMIT_REACHED("limit_reached"),
    ENDED("ended"),
    UNKNOWN_CAMPAIGN("unknown_campaign"),
    KEY_REUSED("key_reused"),
    NONE("none"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    PlaceState(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static PlaceState of(String value) {
        for (PlaceState one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
