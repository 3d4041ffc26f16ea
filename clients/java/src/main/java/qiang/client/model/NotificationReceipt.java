// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Receipt of a payment service's notification.
 *
 * @param recorded Reports of payments and refunds that are recorded, by this notification or an earlier one.
 * @param ignored Reason why a notification without reports is acknowledged. May be null.
 */
public record NotificationReceipt(
        @JsonProperty("recorded") long recorded,
        @JsonProperty("ignored") String ignored) {}
