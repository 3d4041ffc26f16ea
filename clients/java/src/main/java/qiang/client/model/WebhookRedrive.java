// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** Events to deliver again. */
public final class WebhookRedrive extends Body {
    /** Body without fields. */
    public WebhookRedrive() {
    }

    /**
     * Start of the events to deliver, by time of decision, as far as events are kept. Default: those not delivered yet.
     */
    public WebhookRedrive since(Instant since) {
        set("since", since);
        return this;
    }
}
