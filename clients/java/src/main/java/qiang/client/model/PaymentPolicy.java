// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Payments that pay an order of a sale although they differ from its price. */
public enum PaymentPolicy {
    OWED("owed"),
    ACCEPT_OVER("accept_over"),
    ACCEPT_WITH_TOLERANCE("accept_with_tolerance"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    PaymentPolicy(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static PaymentPolicy of(String value) {
        for (PaymentPolicy one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
