// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * A grab ticket.
 *
 * @param ticket Value of the header `Grab-Ticket` in claims.
 * @param expiresAt Time until which it is valid.
 */
public record GrabTicket(
        @JsonProperty("ticket") String ticket,
        @JsonProperty("expires_at") Instant expiresAt) {}
