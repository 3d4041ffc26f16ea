// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of a test delivery.
 *
 * @param delivered Whether the endpoint answered 2xx in time.
 * @param error Error of a failed delivery. May be null.
 */
public record WebhookTest(
        @JsonProperty("delivered") boolean delivered,
        @JsonProperty("error") String error) {}
