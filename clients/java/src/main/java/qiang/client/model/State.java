// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * A campaign's numbers. Always supply = granted + remaining + returned + withheld.
 *
 * @param phase Phase of the campaign.
 * @param supply Total shares or units.
 * @param granted Shares or units that users have.
 * @param remaining Shares or units that can still be claimed.
 * @param returned Shares or units returned at the close.
 * @param withheld Units that repairs withhold, because a user may have been granted them. They are returned at the
 *     close.
 * @param startsAt The first instant at which claims are accepted.
 * @param endsAt The first instant at which they no longer are.
 * @param now The server's time.
 */
public record State(
        @JsonProperty("phase") Phase phase,
        @JsonProperty("supply") long supply,
        @JsonProperty("granted") long granted,
        @JsonProperty("remaining") long remaining,
        @JsonProperty("returned") long returned,
        @JsonProperty("withheld") long withheld,
        @JsonProperty("starts_at") Instant startsAt,
        @JsonProperty("ends_at") Instant endsAt,
        @JsonProperty("now") Instant now) {}
