// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Kind of action. */
public enum ActionKind {
    DEPOSIT("deposit"),
    CREATE("create"),
    CHANGE("change"),
    PAUSE("pause"),
    RESUME("resume"),
    START("start"),
    CLOSE("close"),
    ARCHIVE("archive"),
    PAY("pay"),
    REFUND("refund"),
    WITHDRAW("withdraw"),
    REVERSE("reverse"),
    TRANSFER("transfer"),
    CANCEL("cancel"),
    EXTEND_HOLD("extend_hold"),
    RETURN("return"),
    DELETE("delete"),
    REDRIVE("redrive"),
    REPAIR("repair"),
    RECONCILE("reconcile"),
    RELEASE("release"),
    AUDIT("audit"),
    DISCARD("discard"),
    RUN("run"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    ActionKind(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static ActionKind of(String value) {
        for (ActionKind one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
