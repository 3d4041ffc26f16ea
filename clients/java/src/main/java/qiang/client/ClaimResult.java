package qiang.client;

import qiang.client.model.Place;
import qiang.client.model.Problem;
import qiang.client.model.RefusedOutcome;

/** Result of a claim that was decided, or that waits in a queue. Other refusals are exceptions. */
public sealed interface ClaimResult<T> {
    /**
     * The claim was granted, by this request or by an earlier one with its key.
     *
     * @param grant The order, or the share of a red packet.
     * @param isReplay Whether an earlier request made the grant. A retry of a lost attempt of this call counts as one.
     */
    record Granted<T>(T grant, boolean isReplay) implements ClaimResult<T> {}

    /**
     * The campaign has a queue, and the claim has an entry in it. {@link QiangClient#waitForOrder} and
     * {@link QiangClient#waitForClaim} wait for its result.
     *
     * @param place The entry.
     */
    record Waiting<T>(Place place) implements ClaimResult<T> {}

    /**
     * Nothing was granted: for example the campaign is sold out.
     *
     * @param outcome The outcome.
     * @param problem Its details.
     */
    record Refused<T>(RefusedOutcome outcome, Problem problem) implements ClaimResult<T> {}
}
