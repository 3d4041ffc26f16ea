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
 */
public record Metadata(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("metadata") Map<String, String> metadata,
        @JsonProperty("reference") String reference) {}
