// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * An event, in the fields of server-sent events.
 *
 * @param event state or draws.
 * @param data JSON. For `state` a State. For `draws` an object with `claims`, shares ordered by number, and `gap`,
 *     which is true if shares are missing between these and the last event. The list of claims has them.
 * @param id With `draws`: the number of the newest draw. May be null.
 */
public record CampaignEvent(
        @JsonProperty("event") String event,
        @JsonProperty("data") String data,
        @JsonProperty("id") String id) {}
