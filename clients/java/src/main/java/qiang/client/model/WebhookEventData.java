// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Details of the event. Fields may be added.
 *
 * @param amount amount May be null.
 * @param campaign campaign May be null.
 * @param change stock, terms, paused or resumed. May be null.
 * @param kind kind May be null.
 * @param number number May be null.
 * @param order order May be null.
 * @param owner owner May be null.
 * @param payment payment May be null.
 * @param quantity quantity May be null.
 * @param reference reference May be null.
 * @param refunded refunded May be null.
 * @param returned returned May be null.
 * @param user user May be null.
 */
public record WebhookEventData(
        @JsonProperty("amount") Money amount,
        @JsonProperty("campaign") String campaign,
        @JsonProperty("change") String change,
        @JsonProperty("kind") String kind,
        @JsonProperty("number") Long number,
        @JsonProperty("order") String order,
        @JsonProperty("owner") String owner,
        @JsonProperty("payment") String payment,
        @JsonProperty("quantity") Long quantity,
        @JsonProperty("reference") String reference,
        @JsonProperty("refunded") Money refunded,
        @JsonProperty("returned") Long returned,
        @JsonProperty("user") String user) {}
