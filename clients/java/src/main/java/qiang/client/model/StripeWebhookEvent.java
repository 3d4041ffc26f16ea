// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.Map;

/** Snapshot event of Stripe. Further fields are ignored. */
public final class StripeWebhookEvent extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public StripeWebhookEvent(String type, long created, boolean livemode, Map<String, Object> data) {
        set("type", type);
        set("created", created);
        set("livemode", livemode);
        set("data", data);
    }
}
