// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of a payment report.
 *
 * @param outcome Outcome of the payment.
 * @param order The order.
 */
public record Payment(
        @JsonProperty("outcome") PaymentOutcome outcome,
        @JsonProperty("order") Order order) {}
