// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Type of a webhook event. */
public enum WebhookEventType {
    SHARE_GRANTED("share.granted"),
    ORDER_HELD("order.held"),
    ORDER_PAID("order.paid"),
    ORDER_CANCELLED("order.cancelled"),
    ORDER_EXPIRED("order.expired"),
    ORDER_HOLD_EXTENDED("order.hold_extended"),
    ORDER_RETURNED("order.returned"),
    ORDER_REFUND_DUE("order.refund_due"),
    ORDER_REFUNDED("order.refunded"),
    CAMPAIGN_OPENED("campaign.opened"),
    CAMPAIGN_SOLD_OUT("campaign.sold_out"),
    CAMPAIGN_CHANGED("campaign.changed"),
    CAMPAIGN_CLOSED("campaign.closed"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    WebhookEventType(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static WebhookEventType of(String value) {
        for (WebhookEventType one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
