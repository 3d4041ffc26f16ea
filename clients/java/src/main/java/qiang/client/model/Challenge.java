// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * A challenge.
 *
 * @param kind `proof-of-work`, unless the installation has its own challenge.
 * @param nonce Nonce to send back with the solution.
 * @param expiresAt Time until which a solution is accepted.
 * @param difficulty For `proof-of-work`: the number of zero bits. May be null.
 */
public record Challenge(
        @JsonProperty("kind") String kind,
        @JsonProperty("nonce") String nonce,
        @JsonProperty("expires_at") Instant expiresAt,
        @JsonProperty("difficulty") Long difficulty) {}
