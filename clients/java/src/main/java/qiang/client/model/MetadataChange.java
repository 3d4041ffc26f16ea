// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.Map;

/** A change of metadata. Absent fields and names do not change. */
public final class MetadataChange extends Body {
    /** Body without fields. */
    public MetadataChange() {
    }

    /** New values by name; null removes a name. An object has at most 20 names. */
    public MetadataChange metadata(Map<String, String> metadata) {
        set("metadata", metadata);
        return this;
    }

    /**
     * The shop's own number of the object; null removes it. Several objects may have the same one, unless it is unique.
     */
    public MetadataChange reference(String reference) {
        set("reference", reference);
        return this;
    }

    /**
     * Whether the reference is unique, with `reference`: if another campaign of the owner, or another order of the
     * seller, has it as a unique one, the change is refused. Default: as before.
     */
    public MetadataChange uniqueReference(boolean uniqueReference) {
        set("unique_reference", uniqueReference);
        return this;
    }
}
