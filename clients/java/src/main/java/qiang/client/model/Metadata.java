// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.Map;

/**
 * Metadata of a campaign or an order.
 *
 * @param id Id of the campaign or the order.
 * @param object `sale`, `red_packet` or `order`.
 * @param metadata Texts of the shop by name. May be null.
 * @param reference The shop's own number. May be null.
 * @param uniqueReference Whether no other object of this kind and owner can have the reference as a unique one. May be
 *     null.
 */
public record Metadata(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("metadata") Map<String, String> metadata,
        @JsonProperty("reference") String reference,
        @JsonProperty("unique_reference") Boolean uniqueReference) {}
