// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Readiness of a partition. */
public enum ReadinessStatus {
    READY("ready"),
    DEGRADED("degraded"),
    NOT_READY("not_ready"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    ReadinessStatus(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static ReadinessStatus of(String value) {
        for (ReadinessStatus one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
