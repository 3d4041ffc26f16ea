// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Map;

/**
 * Recorded event, with the content that endpoints receive.
 *
 * @param id Its id: the `webhook-id` of its deliveries.
 * @param type Its type.
 * @param timestamp Time of the decision.
 * @param data Details. Fields may be added.
 */
public record RecordedEvent(
        @JsonProperty("id") String id,
        @JsonProperty("type") WebhookEventType type,
        @JsonProperty("timestamp") Instant timestamp,
        @JsonProperty("data") Map<String, Object> data) {}
