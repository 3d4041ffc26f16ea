// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** A change of the secret. */
public final class WebhookRotation extends Body {
    /** Body without fields. */
    public WebhookRotation() {
    }

    /** Seconds during which events are also signed with the previous secret; default a day, at most 30 days. */
    public WebhookRotation overlapSeconds(long overlapSeconds) {
        set("overlap_seconds", overlapSeconds);
        return this;
    }
}
