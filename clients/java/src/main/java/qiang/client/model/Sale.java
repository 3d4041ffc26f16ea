// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * A flash sale.
 *
 * @param id Its id.
 * @param object `sale`.
 * @param seller The seller.
 * @param title Title that users see.
 * @param stock Total units.
 * @param perUserLimit Maximum units per user.
 * @param unitPrice The price of one unit.
 * @param holdSeconds Time for which an unpaid order keeps its units.
 * @param ack Acknowledgement level of grants.
 * @param admissionPercent Admission permits per remaining unit, in percent; 0 for no limit.
 * @param paymentPolicy Payments that pay an order although they differ from its price.
 * @param waitingRoom Whether claims wait in a queue.
 * @param requirements Requirements of a claim.
 * @param createdAt Time of its creation.
 * @param updatedAt Time of the last change of phase, stock, settings or details.
 * @param state Its counters.
 * @param archivedAt archived_at May be null.
 * @param audience Users who may claim; absent for all users. May be null.
 * @param description Description of the product. May be null.
 * @param gallery URLs of further pictures of the product. May be null.
 * @param imageUrl URL of a picture of the product. May be null.
 * @param listPrice Price of one unit before the discount. May be null.
 * @param metadata Metadata of the shop. Absent unless the caller may read it. May be null.
 * @param paymentTolerance The tolerance of the policy `accept_with_tolerance`. May be null.
 * @param productId product_id May be null.
 * @param reference The shop's own number. Absent unless the caller may read the metadata. May be null.
 */
public record Sale(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("seller") String seller,
        @JsonProperty("title") String title,
        @JsonProperty("stock") long stock,
        @JsonProperty("per_user_limit") long perUserLimit,
        @JsonProperty("unit_price") Money unitPrice,
        @JsonProperty("hold_seconds") long holdSeconds,
        @JsonProperty("ack") AckLevel ack,
        @JsonProperty("admission_percent") long admissionPercent,
        @JsonProperty("payment_policy") PaymentPolicy paymentPolicy,
        @JsonProperty("waiting_room") boolean waitingRoom,
        @JsonProperty("requirements") List<Requirement> requirements,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("updated_at") Instant updatedAt,
        @JsonProperty("state") State state,
        @JsonProperty("archived_at") Instant archivedAt,
        @JsonProperty("audience") AudienceKind audience,
        @JsonProperty("description") String description,
        @JsonProperty("gallery") List<String> gallery,
        @JsonProperty("image_url") String imageUrl,
        @JsonProperty("list_price") Money listPrice,
        @JsonProperty("metadata") Map<String, String> metadata,
        @JsonProperty("payment_tolerance") Money paymentTolerance,
        @JsonProperty("product_id") String productId,
        @JsonProperty("reference") String reference) {}
