// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Attempt to deliver an event to a webhook.
 *
 * @param id Its id.
 * @param event Id of the event.
 * @param type Type of the event.
 * @param campaign Campaign of the event.
 * @param attemptedAt Time of the attempt.
 * @param durationMs Milliseconds from connecting to the end of the answer.
 * @param attempt Number of the attempt at this event, from 1.
 * @param state State of the event after the attempt.
 * @param error Error of a failed attempt. May be null.
 * @param nextAttemptAt next_attempt_at May be null.
 * @param order order May be null.
 * @param responseBody First characters of the answer's body, at most 256. May be null.
 * @param responseStatus Status of the endpoint's answer; absent if it did not answer. May be null.
 */
public record WebhookDelivery(
        @JsonProperty("id") String id,
        @JsonProperty("event") String event,
        @JsonProperty("type") WebhookEventType type,
        @JsonProperty("campaign") String campaign,
        @JsonProperty("attempted_at") Instant attemptedAt,
        @JsonProperty("duration_ms") long durationMs,
        @JsonProperty("attempt") long attempt,
        @JsonProperty("state") WebhookDeliveryState state,
        @JsonProperty("error") String error,
        @JsonProperty("next_attempt_at") Instant nextAttemptAt,
        @JsonProperty("order") String order,
        @JsonProperty("response_body") String responseBody,
        @JsonProperty("response_status") Long responseStatus) {}
