// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** Type of the problem. It is stable, so clients may match on it. */
public enum ProblemType {
    BAD_REQUEST("/problems/bad-request"),
    UNAUTHENTICATED("/problems/unauthenticated"),
    FORBIDDEN("/problems/forbidden"),
    CROSS_SITE("/problems/cross-site"),
    NOT_FOUND("/problems/not-found"),
    METHOD_NOT_ALLOWED("/problems/method-not-allowed"),
    BODY_TIMEOUT("/problems/body-timeout"),
    PRECONDITION_FAILED("/problems/precondition-failed"),
    WEAK_ENTITY_TAG("/problems/weak-entity-tag"),
    TOO_LARGE("/problems/too-large"),
    URI_TOO_LONG("/problems/uri-too-long"),
    HEAD_TOO_LARGE("/problems/head-too-large"),
    MEDIA_TYPE("/problems/media-type"),
    INVALID("/problems/invalid"),
    ACK_UNAVAILABLE("/problems/ack-unavailable"),
    KEY_REUSED("/problems/key-reused"),
    KEY_PENDING("/problems/key-pending"),
    SUPERSEDED("/problems/superseded"),
    USER_MISMATCH("/problems/user-mismatch"),
    SELLER_MISMATCH("/problems/seller-mismatch"),
    PAYMENT_USED("/problems/payment-used"),
    REFUND_EXCEEDS_DUE("/problems/refund-exceeds-due"),
    CANCELLATION_EXCEEDS_ORDER("/problems/cancellation-exceeds-order"),
    RETURN_EXCEEDS_ORDER("/problems/return-exceeds-order"),
    HOLD_EXTENDED("/problems/hold-extended"),
    HOLD_OVER("/problems/hold-over"),
    TOO_MANY_EXTENSIONS("/problems/too-many-extensions"),
    TOO_MANY_RETURNS("/problems/too-many-returns"),
    REVERSAL_EXCEEDS_DEPOSIT("/problems/reversal-exceeds-deposit"),
    REFERENCE_USED("/problems/reference-used"),
    INSUFFICIENT_FUNDS("/problems/insufficient-funds"),
    ID_USED("/problems/id-used"),
    REFERENCE_TAKEN("/problems/reference-taken"),
    PHASE_CONFLICT("/problems/phase-conflict"),
    ORDER_CONFLICT("/problems/order-conflict"),
    UNKNOWN_CAMPAIGN("/problems/unknown-campaign"),
    PAUSED("/problems/paused"),
    NOT_STARTED("/problems/not-started"),
    ENDED("/problems/ended"),
    LIMIT_REACHED("/problems/limit-reached"),
    SOLD_OUT("/problems/sold-out"),
    THROTTLED("/problems/throttled"),
    ADDRESS_THROTTLED("/problems/address-throttled"),
    CREATIONS_THROTTLED("/problems/creations-throttled"),
    TOO_MANY_CONNECTIONS("/problems/too-many-connections"),
    TOO_MANY_STREAMS("/problems/too-many-streams"),
    QUEUE_FULL("/problems/queue-full"),
    ALREADY_WAITING("/problems/already-waiting"),
    NO_QUEUE_ENTRY("/problems/no-queue-entry"),
    OVERLOADED("/problems/overloaded"),
    UNAVAILABLE("/problems/unavailable"),
    UNCERTAIN("/problems/uncertain"),
    LEDGER_INCOMPLETE("/problems/ledger-incomplete"),
    ORDER_CHANGED("/problems/order-changed"),
    STOPPING("/problems/stopping"),
    NOT_ADMITTED("/problems/not-admitted"),
    STOCK_GRANTED("/problems/stock-granted"),
    INTERNAL("/problems/internal"),
    TICKET_MISSING("/problems/ticket-missing"),
    TICKET_INVALID("/problems/ticket-invalid"),
    TICKET_EXPIRED("/problems/ticket-expired"),
    TICKET_OF_ANOTHER_USER("/problems/ticket-of-another-user"),
    TICKET_OF_ANOTHER_CAMPAIGN("/problems/ticket-of-another-campaign"),
    TICKET_NOT_NEEDED("/problems/ticket-not-needed"),
    CHALLENGE_FAILED("/problems/challenge-failed"),
    ORDER_CHECK_REFUSED("/problems/order-check-refused"),
    ORDER_CHECK_UNAVAILABLE("/problems/order-check-unavailable"),
    NOT_IN_AUDIENCE("/problems/not-in-audience"),
    INVITATION_INVALID("/problems/invitation-invalid"),
    PASSPHRASE_WRONG("/problems/passphrase-wrong"),
    PASSPHRASES_THROTTLED("/problems/passphrases-throttled"),
    DRAWS_HIDDEN("/problems/draws-hidden"),
    NOT_BY_INVITATION("/problems/not-by-invitation"),
    NOT_FOR_ENGINE("/problems/not-for-engine"),
    DEVELOPMENT_ONLY("/problems/development-only"),
    NOT_QUARANTINED("/problems/not-quarantined"),
    STILL_REFUSED("/problems/still-refused"),
    RETURN_PERIOD_OVER("/problems/return-period-over"),
    /** A value that this client does not know. Later services may answer further values. */
    UNKNOWN("");

    private final String value;

    ProblemType(String value) {
        this.value = value;
    }

    /** The value in JSON. */
    @JsonValue
    public String value() {
        return value;
    }

    /** The constant of a value in JSON, or {@link #UNKNOWN}. */
    @JsonCreator
    public static ProblemType of(String value) {
        for (ProblemType one : values()) {
            if (one.value.equals(value)) {
                return one;
            }
        }
        return UNKNOWN;
    }
}
