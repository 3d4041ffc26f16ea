// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Rule that splits a total into shares.
 *
 * @param rule Name of the rule.
 * @param max The largest share, in minor units; `normal` needs it, the others have none. May be null.
 * @param min The smallest share, in minor units; default 1. Not for `equal`. May be null.
 */
public record SplitRule(
        @JsonProperty("rule") SplitRuleName rule,
        @JsonProperty("max") Long max,
        @JsonProperty("min") Long min) {}
