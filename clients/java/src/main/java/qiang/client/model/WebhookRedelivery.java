// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Events to deliver once more: one, or all that were given up. */
public final class WebhookRedelivery extends Body {
    /** Body without fields. */
    public WebhookRedelivery() {
    }

    /** Id of an event that the log has an attempt at. */
    public WebhookRedelivery event(String event) {
        set("event", event);
        return this;
    }

    /** All events that were given up from this time on, unless a later attempt succeeded. */
    public WebhookRedelivery givenUpSince(Instant givenUpSince) {
        set("given_up_since", givenUpSince);
        return this;
    }
}
