// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Hash of the server seed of a future red packet.
 *
 * @param id Id of the red packet. It must be sent within a day.
 * @param serverSeedHash SHA-256 over the id and the server seed.
 */
public record ServerSeed(
        @JsonProperty("id") String id,
        @JsonProperty("server_seed_hash") String serverSeedHash) {}
