// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Map;

/**
 * Change that a user or operator requested. It is recorded before the engine decides, so it may have been refused.
 *
 * @param id Its id.
 * @param at Time of the request.
 * @param actor Subject of the request's token, or the name given on the command line.
 * @param action Kind of action.
 * @param subject Id of the changed object.
 * @param requestId Id of the request; empty for actions from the command line.
 * @param detail Content of the request.
 * @param before Earlier values of the changed fields, as read just before the change. Texts such as the title are left
 *     out. May be null.
 */
public record Action(
        @JsonProperty("id") String id,
        @JsonProperty("at") Instant at,
        @JsonProperty("actor") String actor,
        @JsonProperty("action") ActionKind action,
        @JsonProperty("subject") String subject,
        @JsonProperty("request_id") String requestId,
        @JsonProperty("detail") Map<String, Object> detail,
        @JsonProperty("before") Map<String, Object> before) {}
