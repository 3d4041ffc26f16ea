// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Challenge to solve before a ticket.
 *
 * @param challenge challenge
 */
public record ChallengeAnswer(
        @JsonProperty("challenge") Challenge challenge) {}
