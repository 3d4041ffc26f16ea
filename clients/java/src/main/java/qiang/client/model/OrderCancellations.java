// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of one part of a cancellation of many orders.
 *
 * @param matched Orders of this part, which were found held.
 * @param cancelled Orders of this part that are cancelled.
 * @param unchanged Orders of this part that did not change: the sum of `refusals`.
 * @param refusals Orders of this part that did not change, by reason.
 * @param settled Whether the ledger had all orders. If not, repeat the cancellation later for the newest ones.
 * @param next Cursor of the next part; absent after the last one. May be null.
 */
public record OrderCancellations(
        @JsonProperty("matched") long matched,
        @JsonProperty("cancelled") long cancelled,
        @JsonProperty("unchanged") long unchanged,
        @JsonProperty("refusals") CancellationRefusals refusals,
        @JsonProperty("settled") boolean settled,
        @JsonProperty("next") String next) {}
