// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.List;

/**
 * Endpoint that receives webhook events, and its delivery status.
 *
 * @param id Its id.
 * @param url URL to which events are posted.
 * @param types Types of events to deliver; empty for all types.
 * @param campaigns Campaigns whose events are delivered; empty for all campaigns.
 * @param createdAt Time of its creation.
 * @param status Delivery status.
 * @param behind Upper bound of undelivered events.
 * @param waiting Events that failed, or follow a failed event of their order, and wait for a retry.
 * @param attempts Failed attempts since then.
 * @param disabledAt disabled_at May be null.
 * @param failingSince failing_since May be null.
 * @param lastError Error of the last failed attempt. May be null.
 * @param managedBy managed_by May be null.
 * @param owner owner May be null.
 * @param retryAt retry_at May be null.
 * @param secret secret May be null.
 */
public record Webhook(
        @JsonProperty("id") String id,
        @JsonProperty("url") String url,
        @JsonProperty("types") List<WebhookEventType> types,
        @JsonProperty("campaigns") List<String> campaigns,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("status") WebhookStatus status,
        @JsonProperty("behind") long behind,
        @JsonProperty("waiting") long waiting,
        @JsonProperty("attempts") long attempts,
        @JsonProperty("disabled_at") Instant disabledAt,
        @JsonProperty("failing_since") Instant failingSince,
        @JsonProperty("last_error") String lastError,
        @JsonProperty("managed_by") String managedBy,
        @JsonProperty("owner") String owner,
        @JsonProperty("retry_at") Instant retryAt,
        @JsonProperty("secret") String secret) {}
