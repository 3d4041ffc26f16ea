// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.List;

/**
 * Refusal by the service. Unknown fields are ignored.
 *
 * @param type Type of the problem: a path of the service with a page about the remedy. See `kind`.
 * @param title Title; the same for all problems of a type.
 * @param status The HTTP status.
 * @param detail Details of this occurrence. May be null.
 * @param errors Known wrong fields and parameters; for `bad-request` and `invalid`. For a batch with the mode `all`,
 *     the refused campaigns. May be null.
 * @param existingId Id of the campaign or order that has the reference; for `reference-taken`. May be null.
 * @param held Units of this user; for `limit-reached`. May be null.
 * @param limit Maximum units per user; for `limit-reached`. May be null.
 * @param offered Offered levels; for `ack-unavailable`. May be null.
 * @param outcome Outcome; for claims. May be null.
 * @param remaining Remaining units, fewer than requested; for `sold-out`. May be null.
 * @param requestId Id of the request. Log lines of the service contain it. May be null.
 * @param scope Scope that the token must have; for `forbidden`. May be null.
 * @param startsAt starts_at May be null.
 * @param violatedPolicies Exceeded limits; for status 429. May be null.
 */
public record Problem(
        @JsonProperty("type") ProblemType type,
        @JsonProperty("title") String title,
        @JsonProperty("status") long status,
        @JsonProperty("detail") String detail,
        @JsonProperty("errors") List<FieldError> errors,
        @JsonProperty("existing_id") String existingId,
        @JsonProperty("held") Long held,
        @JsonProperty("limit") Long limit,
        @JsonProperty("offered") List<AckLevel> offered,
        @JsonProperty("outcome") RefusedOutcome outcome,
        @JsonProperty("remaining") Long remaining,
        @JsonProperty("request_id") String requestId,
        @JsonProperty("scope") String scope,
        @JsonProperty("starts_at") Instant startsAt,
        @JsonProperty("violated-policies") List<String> violatedPolicies) {}
