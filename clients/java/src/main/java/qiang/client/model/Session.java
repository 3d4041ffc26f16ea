// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.List;

/**
 * The signed-in user.
 *
 * @param user The user.
 * @param scopes Scopes of the token.
 * @param expiresAt Time when the session ends.
 */
public record Session(
        @JsonProperty("user") String user,
        @JsonProperty("scopes") List<String> scopes,
        @JsonProperty("expires_at") Instant expiresAt) {}
