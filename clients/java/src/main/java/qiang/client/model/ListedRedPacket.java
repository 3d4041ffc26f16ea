// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Map;

/**
 * A red packet in a list.
 *
 * @param id Its id.
 * @param object `red_packet`.
 * @param sender The sender.
 * @param title Title that users see.
 * @param total Total money of all shares.
 * @param shares Number of shares.
 * @param split Rule that splits the total into shares.
 * @param cover Look of the envelope on the pages.
 * @param createdAt Time of its creation.
 * @param updatedAt Time of the last change of phase, stock, settings or details.
 * @param state Its counters, as settled.
 * @param archivedAt archived_at May be null.
 * @param metadata Metadata of the shop. Absent unless the caller may read it. May be null.
 * @param reference The shop's own number. Absent unless the caller may read the metadata. May be null.
 */
public record ListedRedPacket(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("sender") String sender,
        @JsonProperty("title") String title,
        @JsonProperty("total") Money total,
        @JsonProperty("shares") long shares,
        @JsonProperty("split") SplitRule split,
        @JsonProperty("cover") Cover cover,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("updated_at") Instant updatedAt,
        @JsonProperty("state") State state,
        @JsonProperty("archived_at") Instant archivedAt,
        @JsonProperty("metadata") Map<String, String> metadata,
        @JsonProperty("reference") String reference) {}
