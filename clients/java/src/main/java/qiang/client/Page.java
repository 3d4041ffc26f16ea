package qiang.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Page of a list.
 *
 * @param data Its entries.
 * @param next Cursor of the next page: the value of its {@code after}. Null on the last one.
 * @param settled Whether everything decided before the request is in the list. Null if it does not depend on
 *     settlement.
 */
public record Page<T>(
        @JsonProperty("data") List<T> data,
        @JsonProperty("next") String next,
        @JsonProperty("settled") Boolean settled) {}
