// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Invitation to a campaign. It admits any user who presents it.
 *
 * @param invitation Text that a claim must present.
 * @param expiresAt Time from which it is invalid.
 */
public record Invitation(
        @JsonProperty("invitation") String invitation,
        @JsonProperty("expires_at") Instant expiresAt) {}
