// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Rule that splits a total into shares. */
public enum SplitRuleName {
    NORMAL("normal"),
    DOUBLE_AVERAGE("double_average"),
    EQUAL("equal"),
    LAZY("lazy"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    SplitRuleName(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static SplitRuleName of(String value) {
        for (SplitRuleName one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
