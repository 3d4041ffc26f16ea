// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Filters of {@code listActions}. */
public final class ListActionsQuery extends Query {
    /**
     * Object of the change: the id of a campaign, order or webhook, or the user who owns the account. `the service`
     * stands for partitions, quarantine and audits. Default: all objects.
     */
    public ListActionsQuery subject(String subject) {
        set("subject", subject);
        return this;
    }

    /** Kind of the changes. Not together with `subject`. */
    public ListActionsQuery action(ActionKind action) {
        set("action", action);
        return this;
    }

    /** `refused`: payment reports that were refused. Not together with `subject`. */
    public ListActionsQuery outcome(String outcome) {
        set("outcome", outcome);
        return this;
    }

    /** `oldest` (the default) or `newest` first. Not together with `subject`. */
    public ListActionsQuery order(String order) {
        set("order", order);
        return this;
    }

    /** Actions after this cursor: `next` of the page before. */
    public ListActionsQuery after(String after) {
        set("after", after);
        return this;
    }

    /** At most this many; default 100, at most 1000. */
    public ListActionsQuery limit(long limit) {
        set("limit", limit);
        return this;
    }
}
