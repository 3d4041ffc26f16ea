// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Kind of an object. */
public enum ObjectKind {
    SALE("sale"),
    RED_PACKET("red_packet"),
    ORDER("order"),
    CLAIM("claim"),
    PAYMENT("payment"),
    DEPOSIT("deposit"),
    REVERSAL("reversal"),
    REFUND_REVERSAL("refund_reversal"),
    TRANSFER("transfer"),
    WITHDRAWAL("withdrawal"),
    REFUND("refund"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    ObjectKind(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static ObjectKind of(String value) {
        for (ObjectKind one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
