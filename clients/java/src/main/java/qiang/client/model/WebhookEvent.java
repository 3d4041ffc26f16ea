// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * A settled change.
 *
 * @param type type
 * @param timestamp Time of the decision.
 * @param data Details of the event. Fields may be added.
 */
public record WebhookEvent(
        @JsonProperty("type") String type,
        @JsonProperty("timestamp") Instant timestamp,
        @JsonProperty("data") WebhookEventData data) {}
