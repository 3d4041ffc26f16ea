// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Parameters of a challenge. An installation's own challenge may have others.
 *
 * @param difficulty For `proof-of-work`: the number of zero bits. May be null.
 */
public record ChallengeParameters(
        @JsonProperty("difficulty") Long difficulty) {}
