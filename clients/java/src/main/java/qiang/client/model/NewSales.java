// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.List;

/** Sales to open: 1 to 100. */
public final class NewSales extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewSales(List<KeyedSale> sales) {
        set("sales", sales);
    }

    /**
     * `each`: a refused sale does not affect the others. `all`: if one sale is refused, none is created, and the whole
     * request is refused. Default: `each`.
     */
    public NewSales mode(BatchMode mode) {
        set("mode", mode);
        return this;
    }
}
