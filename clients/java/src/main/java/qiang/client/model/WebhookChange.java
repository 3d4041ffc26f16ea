// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.List;

/** Changes of a webhook. Absent fields do not change. */
public final class WebhookChange extends Body {
    /** Body without fields. */
    public WebhookChange() {
    }

    /** Campaigns of events that it receives, at most 100; empty for all campaigns. */
    public WebhookChange campaigns(List<String> campaigns) {
        set("campaigns", campaigns);
        return this;
    }

    /**
     * Whether events are delivered. An endpoint that is enabled again receives the events since it was disabled, as far
     * as they are kept.
     */
    public WebhookChange enabled(boolean enabled) {
        set("enabled", enabled);
        return this;
    }

    /** Sender or seller of the campaigns of events that it receives; null for all. */
    public WebhookChange owner(String owner) {
        set("owner", owner);
        return this;
    }

    /** Types of events that it receives; empty for all types. */
    public WebhookChange types(List<WebhookEventType> types) {
        set("types", types);
        return this;
    }

    /**
     * New URL of the endpoint: `https:` with a host on the public internet. Events that wait for a retry are due at
     * once.
     */
    public WebhookChange url(String url) {
        set("url", url);
        return this;
    }
}
