// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Users who may claim of a campaign.
 *
 * @param audience Condition that users must meet; absent if all users may claim. May be null.
 * @param users The named users, for an audience of named users. May be null.
 */
public record CampaignAudience(
        @JsonProperty("audience") AudienceKind audience,
        @JsonProperty("users") List<String> users) {}
