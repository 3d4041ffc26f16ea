// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Orders that a cancellation did not change, by reason.
 *
 * @param paid They were paid at that moment.
 * @param expired They had expired at that moment.
 * @param returned They were paid and returned at that moment.
 * @param unknown The engine does not have them, though the ledger does: `qiang reconcile` compares the two.
 */
public record CancellationRefusals(
        @JsonProperty("paid") long paid,
        @JsonProperty("expired") long expired,
        @JsonProperty("returned") long returned,
        @JsonProperty("unknown") long unknown) {}
