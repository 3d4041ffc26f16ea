// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Kind of posting. */
public enum PostingKind {
    DEPOSIT("deposit"),
    FUND("fund"),
    GRANT("grant"),
    REFUND("refund"),
    RESIDUE("residue"),
    PAYMENT("payment"),
    REFUND_DUE("refund_due"),
    RETURN("return"),
    REFUND_PAID("refund_paid"),
    WITHDRAWAL("withdrawal"),
    REVERSAL("reversal"),
    REFUND_REVERSAL("refund_reversal"),
    TRANSFER("transfer"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    PostingKind(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static PostingKind of(String value) {
        for (PostingKind one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
