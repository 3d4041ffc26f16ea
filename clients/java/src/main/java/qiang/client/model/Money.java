// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Money in whole minor units (fen, cents) of one currency.
 *
 * @param amount Whole minor units.
 * @param currency ISO 4217 code.
 */
public record Money(
        @JsonProperty("amount") long amount,
        @JsonProperty("currency") String currency) {}
