// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of one sale of a batch.
 *
 * @param idempotencyKey Idempotency key of the sale.
 * @param result Result of the creation.
 * @param problem Reason of a refusal. May be null.
 * @param sale The sale, unless it was refused. May be null.
 */
public record SaleResult(
        @JsonProperty("idempotency_key") String idempotencyKey,
        @JsonProperty("result") CreationResult result,
        @JsonProperty("problem") Problem problem,
        @JsonProperty("sale") Sale sale) {}
