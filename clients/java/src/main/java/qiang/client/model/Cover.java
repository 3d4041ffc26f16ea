// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Look of a red packet's envelope on the pages. */
public enum Cover {
    CLASSIC("classic"),
    BLOSSOM("blossom"),
    LANTERN("lantern"),
    CLOUD("cloud"),
    BIRTHDAY("birthday"),
    WEDDING("wedding"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    Cover(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static Cover of(String value) {
        for (Cover one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
