// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * A user's queue entry.
 *
 * @param state State of the entry: it waits, or its result.
 * @param place Number of the entry. Entries are decided in this order.
 * @param ahead Upper bound of the entries before this one; absent once it is decided. May be null.
 * @param claim The claimed share, if one was granted. May be null.
 * @param order The order, if units were granted. May be null.
 */
public record Place(
        @JsonProperty("state") PlaceState state,
        @JsonProperty("place") long place,
        @JsonProperty("ahead") Long ahead,
        @JsonProperty("claim") Claim claim,
        @JsonProperty("order") Order order) {}
