// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Clock of a service for development.
 *
 * @param now The time of the service.
 * @param advancedSeconds Seconds by which requests have moved it.
 */
public record ClockReading(
        @JsonProperty("now") Instant now,
        @JsonProperty("advanced_seconds") long advancedSeconds) {}
