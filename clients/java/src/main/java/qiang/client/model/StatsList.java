// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Statistics of the last minutes of a node, or those after an earlier answer.
 *
 * @param process Random id of the process that sampled them, drawn at its start. Numbers of another process do not
 *     apply.
 * @param stats Earliest first.
 */
public record StatsList(
        @JsonProperty("process") String process,
        @JsonProperty("stats") List<Stats> stats) {}
