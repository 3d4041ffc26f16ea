// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Account of a user.
 *
 * @param user The user.
 * @param balances Balances, one per currency.
 * @param settled Whether the balances include all grants from before the request. If not, read them again later.
 */
public record Account(
        @JsonProperty("user") String user,
        @JsonProperty("balances") List<Balance> balances,
        @JsonProperty("settled") boolean settled) {}
