// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * A red packet.
 *
 * @param id Its id.
 * @param object `red_packet`.
 * @param sender The sender.
 * @param title Title that users see.
 * @param total Total money of all shares.
 * @param shares Number of shares.
 * @param split Rule that splits the total into shares.
 * @param ack Acknowledgement level of grants.
 * @param draws Users who may see the claimed shares.
 * @param cover Look of the envelope on the pages.
 * @param waitingRoom Whether claims wait in a queue.
 * @param requirements Requirements of a claim.
 * @param claimed Money of the claimed shares.
 * @param remaining Money of the shares that can still be claimed.
 * @param refunded Money refunded to the sender.
 * @param withheld Money of the shares that repairs withhold. It goes back to the sender at the close.
 * @param commitment The SHA-256 over split, id, currency and seed.
 * @param createdAt Time of its creation.
 * @param updatedAt Time of the last change of phase, stock, settings or details.
 * @param state Its counters.
 * @param archivedAt archived_at May be null.
 * @param audience Users who may claim; absent for all users. May be null.
 * @param clientSeed The client seed, which the sender added. May be null.
 * @param luckiest The largest share, once all are claimed or the packet is closed. May be null.
 * @param metadata Metadata of the shop. Absent unless the caller may read it. May be null.
 * @param reference The shop's own number. Absent unless the caller may read the metadata. May be null.
 * @param seed Seed of all shares. Disclosed once it gives no user an advantage. May be null.
 * @param serverSeed The server seed, disclosed together with the seed. May be null.
 * @param serverSeedHash Hash of the server seed. May be null.
 */
public record RedPacket(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("sender") String sender,
        @JsonProperty("title") String title,
        @JsonProperty("total") Money total,
        @JsonProperty("shares") long shares,
        @JsonProperty("split") SplitRule split,
        @JsonProperty("ack") AckLevel ack,
        @JsonProperty("draws") Draws draws,
        @JsonProperty("cover") Cover cover,
        @JsonProperty("waiting_room") boolean waitingRoom,
        @JsonProperty("requirements") List<Requirement> requirements,
        @JsonProperty("claimed") Money claimed,
        @JsonProperty("remaining") Money remaining,
        @JsonProperty("refunded") Money refunded,
        @JsonProperty("withheld") Money withheld,
        @JsonProperty("commitment") String commitment,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("updated_at") Instant updatedAt,
        @JsonProperty("state") State state,
        @JsonProperty("archived_at") Instant archivedAt,
        @JsonProperty("audience") AudienceKind audience,
        @JsonProperty("client_seed") String clientSeed,
        @JsonProperty("luckiest") Claim luckiest,
        @JsonProperty("metadata") Map<String, String> metadata,
        @JsonProperty("reference") String reference,
        @JsonProperty("seed") String seed,
        @JsonProperty("server_seed") String serverSeed,
        @JsonProperty("server_seed_hash") String serverSeedHash) {}
