// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.List;

/** An endpoint that receives events. */
public final class NewWebhook extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewWebhook(String url) {
        set("url", url);
    }

    /** Campaigns of events that it receives, at most 100; empty for all campaigns. */
    public NewWebhook campaigns(List<String> campaigns) {
        set("campaigns", campaigns);
        return this;
    }

    /** Sender or seller of the campaigns of events that it receives. Without the scope `admin` it is the caller. */
    public NewWebhook owner(String owner) {
        set("owner", owner);
        return this;
    }

    /** Types of events that it receives; empty for all types. */
    public NewWebhook types(List<WebhookEventType> types) {
        set("types", types);
        return this;
    }
}
