-- Temporary tables for several checks, built once from the rows. Nothing is written to the file.

-- Quarantined entries, with the fields of their text: `seq at campaign event …`. Fields end at the next space. The
-- entries are not settled, although the position is past them. `discard` is at least 2 for a discarded entry, which is
-- never settled and blocks no other entry.
CREATE TEMP TABLE aside AS
WITH events AS (
    SELECT *, substr(entry, instr(entry, campaign) + length(campaign) + 1) AS told FROM set_aside
), kinds AS (
    SELECT *, substr(told, 1, instr(told || ' ', ' ') - 1) AS kind FROM events
), fields AS (
    SELECT *, substr(told, length(kind) + 2) AS fields FROM kinds
), users AS (
    SELECT *, substr(fields, instr(fields || ' ', ' ') + 1) AS behind_number FROM fields
), units AS (
    SELECT *, substr(behind_number, instr(behind_number || ' ', ' ') + 1) AS behind_user FROM users
)
SELECT partition, seq, campaign, nullif(told, '') AS told, nullif(kind, '') AS kind,
       -- Number of the grant or order; for a close, returned units.
       CASE WHEN fields <> '' AND kind <> 'opened' AND kind NOT LIKE 'transfer%'
                 AND kind NOT IN ('stock_changed', 'terms_changed', 'change_made')
            THEN CAST(fields AS INTEGER)
       END AS number,
       CASE kind WHEN 'granted' THEN CAST(behind_user AS INTEGER)
                 WHEN 'stock_changed' THEN CAST(fields AS INTEGER)
                 -- Partial cancellation or return: `number quantity key`.
                 WHEN 'part_cancelled' THEN CAST(behind_number AS INTEGER)
                 WHEN 'returned' THEN nullif(CAST(behind_number AS INTEGER), 0)
       END AS quantity,
       CASE kind WHEN 'granted' THEN substr(behind_number, 1, instr(behind_number || ' ', ' ') - 1) END AS user,
       CASE kind WHEN 'granted' THEN CAST(substr(behind_user, instr(behind_user || ' ', ' ') + 1) AS INTEGER)
       END AS amount,
       -- Payment that was not the order's price: `number payment amount currency`.
       CASE WHEN kind IN ('paid', 'reinstated', 'refund_due') AND instr(behind_number, ' ') > 0
            THEN CAST(behind_user AS INTEGER)
       END AS other_amount,
       CASE WHEN kind IN ('paid', 'reinstated', 'refund_due') AND instr(behind_number, ' ') > 0
            THEN substr(behind_user, instr(behind_user, ' ') + 1)
       END AS other_currency,
       reason, waits_for, discard
FROM units;

CREATE INDEX temp.aside_of ON aside (campaign, kind, number);

-- Payments for discarded orders, each once. Their refunds are due to the buyer, in the currency of the payment. If a
-- repair recreated an order and it was discarded again, the second one has no payments here.
CREATE TEMP TABLE owed AS
SELECT s.partition, s.seq, s.campaign, s.number, g.user, coalesce(s.other_amount, g.amount) AS amount,
       coalesce(s.other_currency, c.currency) AS currency
FROM temp.aside s
JOIN campaigns c ON c.id = s.campaign
JOIN temp.aside g ON g.campaign = s.campaign AND g.kind = 'granted' AND g.number = s.number
                 AND g.partition = s.partition AND g.seq < s.seq AND g.discard >= 2
WHERE s.kind IN ('paid', 'reinstated', 'refund_due') AND s.discard >= 2
GROUP BY s.partition, s.seq
HAVING count(*) = 1 AND coalesce(s.other_amount, g.amount) > 0;

-- Orders with returned units: the amount that paid each, and the refund due for partial returns, rounded down. The
-- division comes first, and factors have 16 bits, so no product overflows 64 bits.
CREATE TEMP TABLE returned AS
SELECT campaign, number, user, currency, state, updated_at, paid,
       paid / quantity * returned_in_parts
       + paid % quantity * (returned_in_parts / 65536) / quantity * 65536
       + (paid % quantity * (returned_in_parts / 65536) % quantity * 65536
          + paid % quantity * (returned_in_parts % 65536)) / quantity AS owed_in_parts
FROM (
    SELECT o.campaign, o.number, o.user, c.currency, o.state, o.updated_at, coalesce(p.amount, o.amount) AS paid,
           max(o.quantity, 1) AS quantity, o.returned_in_parts
    FROM orders o
    JOIN campaigns c ON c.ref = o.campaign
    LEFT JOIN payments p ON p.campaign = o.campaign AND p.number = o.number AND p.outcome <> 'refund_due'
    WHERE o.state = 'returned' OR o.returned_in_parts <> 0
);

-- Refunds due per order and currency, and the refunded part.
CREATE TEMP TABLE owed_for AS
SELECT campaign, number, user, currency, sum(due) AS due, sum(refunded) AS refunded
FROM (
    SELECT o.campaign, o.number, o.user, coalesce(p.currency, c.currency) AS currency, p.amount AS due, 0 AS refunded
    FROM payments p
    JOIN orders o ON o.campaign = p.campaign AND o.number = p.number
    JOIN campaigns c ON c.ref = o.campaign
    WHERE p.outcome = 'refund_due'
    UNION ALL
    -- Once the order is returned, the whole payment is due. Before that, the returned units' part is due.
    SELECT campaign, number, user, currency,
           CASE state WHEN 'returned' THEN paid ELSE owed_in_parts END, 0
    FROM temp.returned
    UNION ALL
    SELECT c.ref, w.number, w.user, w.currency, w.amount, 0
    FROM temp.owed w
    JOIN campaigns c ON c.id = w.campaign
    UNION ALL
    SELECT t.campaign, t.number, a.owner, a.currency, 0, t.amount
    FROM payouts t
    LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting
    LEFT JOIN accounts a ON a.id = p.debit
    WHERE t.kind = 'refund_paid'
    UNION ALL
    SELECT t.campaign, t.number, a.owner, a.currency, 0, -t.amount
    FROM payouts t
    LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting
    LEFT JOIN accounts a ON a.id = p.credit
    WHERE t.kind = 'refund_reversal'
)
GROUP BY campaign, number, user, currency;

CREATE INDEX temp.owed_to ON owed_for (user, currency);

-- Grants by number.
CREATE TEMP TABLE grants (
    campaign INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    user     TEXT,
    quantity INTEGER,
    amount   INTEGER,
    settled  INTEGER NOT NULL,
    PRIMARY KEY (campaign, number, seq)
) WITHOUT ROWID;

INSERT INTO temp.grants
SELECT campaign, coalesce(number, 0), seq, at, user, quantity, amount,
       seq <= (SELECT coalesce(max(seq), 0) FROM settled WHERE partition = 0)
           AND seq NOT IN (SELECT seq FROM temp.aside WHERE partition = 0)
FROM events
WHERE kind = 1
ORDER BY campaign, number, seq;

-- Partial cancellations: the units of each, and of those before. An order has fewer units then, and costs less.
CREATE TEMP TABLE cut (
    campaign INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    units    INTEGER,
    before   INTEGER NOT NULL,
    PRIMARY KEY (campaign, number, seq)
) WITHOUT ROWID;

INSERT OR IGNORE INTO temp.cut
SELECT campaign, coalesce(number, 0), seq, quantity,
       coalesce(sum(quantity) OVER (PARTITION BY campaign, number ORDER BY seq
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
FROM events
WHERE kind = 18;

-- Entries of orders with cancelled units: the units cancelled before each.
CREATE TEMP TABLE reduced (seq INTEGER PRIMARY KEY, units INTEGER NOT NULL);

INSERT INTO temp.reduced
SELECT e.seq, (SELECT coalesce(sum(c.units), 0) FROM temp.cut c
               WHERE c.campaign = e.campaign AND c.number = e.number AND c.seq < e.seq)
FROM (SELECT DISTINCT campaign, number FROM temp.cut) o
JOIN events e ON e.campaign = o.campaign AND e.number = o.number
GROUP BY e.seq;

-- Returns: the units of each, and the units of earlier partial returns. A return without a quantity takes all remaining
-- units.
CREATE TEMP TABLE given (
    seq    INTEGER PRIMARY KEY,
    units  INTEGER,
    before INTEGER NOT NULL,
    whole  INTEGER -- units of the order
);

INSERT INTO temp.given
SELECT e.seq, coalesce(e.quantity, g.quantity - coalesce(d.units, 0) - e.before), e.before,
       g.quantity - coalesce(d.units, 0)
FROM (
    SELECT seq, campaign, number, quantity,
           coalesce(sum(quantity) OVER (PARTITION BY campaign, number ORDER BY seq
                                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM events
    WHERE kind = 16
) e
LEFT JOIN temp.grants g ON g.campaign = e.campaign AND g.number = e.number
LEFT JOIN temp.reduced d ON d.seq = e.seq
GROUP BY e.seq;

-- The log per campaign, each entry with its change of the users' units.
CREATE TEMP TABLE log (
    campaign INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    kind     TEXT,     -- null: unknown kind
    number   INTEGER,
    user     TEXT,     -- user of the grant, in all entries of an order
    quantity INTEGER,
    amount   INTEGER,
    note     TEXT,
    units    INTEGER NOT NULL,
    settled  INTEGER NOT NULL,
    discarded INTEGER NOT NULL,
    PRIMARY KEY (campaign, seq)
) WITHOUT ROWID;

INSERT OR IGNORE INTO temp.log
SELECT e.campaign, e.seq, e.at,
       CASE e.kind
           WHEN 0 THEN 'opened' WHEN 1 THEN 'granted' WHEN 2 THEN 'paid' WHEN 3 THEN 'cancelled'
           WHEN 4 THEN 'expired' WHEN 5 THEN 'reinstated' WHEN 6 THEN 'refund_due' WHEN 7 THEN 'paused'
           WHEN 8 THEN 'resumed' WHEN 9 THEN 'ended' WHEN 10 THEN 'closed' WHEN 11 THEN 'stock_changed'
            WHEN 12 THEN 'terms_changed' WHEN 16 THEN 'returned' WHEN 17 THEN 'change_made'
            WHEN 18 THEN 'part_cancelled' WHEN 19 THEN 'hold_extended'
       END,
       e.number, coalesce(e.user, g.user), coalesce(e.quantity, g.quantity), coalesce(e.amount, g.amount), e.note,
       coalesce(CASE WHEN e.kind = 1 THEN e.quantity
                     WHEN e.kind = 5 THEN g.quantity - coalesce(d.units, 0)
                     WHEN e.kind IN (3, 4) THEN coalesce(d.units, 0) - g.quantity
                     WHEN e.kind = 16 THEN -r.units
                     WHEN e.kind = 18 THEN -e.quantity END, 0),
       e.seq <= (SELECT coalesce(max(seq), 0) FROM settled WHERE partition = 0)
           AND e.seq NOT IN (SELECT seq FROM temp.aside WHERE partition = 0),
       e.seq IN (SELECT seq FROM temp.aside WHERE partition = 0 AND discard >= 2)
FROM events e
LEFT JOIN temp.grants g
    ON (e.kind BETWEEN 2 AND 6 OR e.kind IN (16, 18, 19)) AND g.campaign = e.campaign AND g.number = e.number
LEFT JOIN temp.given r ON e.kind = 16 AND r.seq = e.seq
LEFT JOIN temp.reduced d ON d.seq = e.seq
ORDER BY e.campaign, e.seq;

-- Steps of orders after their grants, per order.
CREATE TEMP TABLE steps (
    campaign INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    payment  TEXT,
    user     TEXT,
    amount   INTEGER, -- the price, or other received money; for a return, the refund due; for an extended hold,
                      -- milliseconds
    currency TEXT,    -- of other received money
    settled  INTEGER NOT NULL,
    key      TEXT,    -- of a partial cancellation or return
    units    INTEGER, -- of a return or a partial cancellation
    left     INTEGER, -- of these: units that the order keeps after it
    price    INTEGER, -- of the units that the order has then
    cut      INTEGER NOT NULL DEFAULT 0, -- units cancelled before
    -- 1 for a payment in other money that the sale's policy accepts, or of the price of what a cancellation left
    accepted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (campaign, number, seq)
) WITHOUT ROWID;

-- The note of a payment that was not the order's price is the payment, a space and the currency.
INSERT INTO temp.steps (campaign, number, seq, at, kind, payment, user, amount, currency, settled, key)
SELECT campaign, coalesce(number, 0), seq, at, kind,
       CASE WHEN kind NOT IN ('returned', 'part_cancelled') THEN substr(note, 1, instr(note || ' ', ' ') - 1) END,
       user, amount,
       CASE WHEN instr(note, ' ') > 0 THEN substr(note, instr(note, ' ') + 1) END, settled,
       CASE WHEN kind IN ('returned', 'part_cancelled') THEN note END
FROM temp.log
WHERE kind IN ('paid', 'cancelled', 'expired', 'reinstated', 'refund_due', 'returned', 'part_cancelled',
               'hold_extended')
ORDER BY campaign, number, seq;

UPDATE temp.steps AS s
SET price = g.amount
FROM temp.grants g
WHERE g.campaign = s.campaign AND g.number = s.number;

-- The price falls with the units.
UPDATE temp.steps AS s
SET cut = d.units, price = g.amount / max(g.quantity, 1) * (g.quantity - d.units)
FROM temp.reduced d, temp.grants g
WHERE d.seq = s.seq AND d.units > 0 AND g.campaign = s.campaign AND g.number = s.number;

UPDATE temp.steps AS s
SET units = c.units, left = g.quantity - c.before - c.units, amount = 0
FROM temp.cut c, temp.grants g
WHERE s.kind = 'part_cancelled' AND g.campaign = s.campaign AND g.number = s.number
  AND c.campaign = s.campaign AND c.number = s.number AND c.seq = s.seq;

UPDATE temp.steps AS s
SET accepted = 1
WHERE currency IS NOT NULL AND EXISTS (
    SELECT 1
    FROM campaigns c
    WHERE c.ref = s.campaign AND c.currency = s.currency AND s.price > 0
      AND (s.cut > 0 AND s.amount = s.price
           OR CASE c.payment_policy
                  WHEN 'accept_over' THEN s.amount > s.price
                  WHEN 'accept_with_tolerance' THEN c.payment_tolerance < s.price
                       AND s.amount BETWEEN s.price - c.payment_tolerance AND s.price + c.payment_tolerance
                  ELSE 0
              END)
);

UPDATE temp.steps AS s
SET amount = coalesce((SELECT p.amount FROM temp.steps p
                       WHERE p.campaign = s.campaign AND p.number = s.number AND p.seq < s.seq
                         AND p.kind IN ('paid', 'reinstated')
                       ORDER BY p.seq DESC LIMIT 1), s.amount)
WHERE s.kind = 'returned';

-- Refund due for all returns so far, after a return (sign 1) and before it (sign -1): the returned units' part of the
-- payment, rounded down, as in `returned`.
CREATE TEMP TABLE owed_so_far AS
SELECT seq, sign * (paid / whole * units
                    + paid % whole * (units / 65536) / whole * 65536
                    + (paid % whole * (units / 65536) % whole * 65536 + paid % whole * (units % 65536)) / whole) AS owed
FROM (
    SELECT r.seq, s.amount AS paid, r.whole, n.sign,
           CASE n.sign WHEN 1 THEN r.before + r.units ELSE r.before END AS units
    FROM temp.given r
    JOIN temp.steps s ON s.kind = 'returned' AND s.seq = r.seq
    JOIN (SELECT 1 AS sign UNION ALL SELECT -1) n
    WHERE r.whole > 0
);

-- A return adds the increase that its units cause.
UPDATE temp.steps AS s
SET units = r.units, left = r.whole - r.before - r.units, amount = o.owed
FROM temp.given r
JOIN (SELECT seq, sum(owed) AS owed FROM temp.owed_so_far GROUP BY seq) o ON o.seq = r.seq
WHERE s.kind = 'returned' AND r.seq = s.seq AND r.whole > 0;

-- Ranges of the log in which a campaign had one phase: after `since`, before `until`.
CREATE TEMP TABLE phases AS
SELECT campaign, seq AS since, kind AS phase, settled,
       lag(kind) OVER (PARTITION BY campaign ORDER BY seq) AS before,
       lead(seq, 1, 9223372036854775807) OVER (PARTITION BY campaign ORDER BY seq) AS until
FROM temp.log
WHERE kind IN ('opened', 'paused', 'resumed', 'ended', 'closed');

CREATE INDEX temp.phases_of ON phases (campaign, since);

-- Ranges of the log in which a campaign had one set of terms: after `since`, before `until`. A packet has one range,
-- and so has a sale with unchanged terms. The note of an entry is the revision, the start, the end and the admission.
CREATE TEMP TABLE terms AS
WITH changes AS (
    SELECT campaign, seq, substr(note, instr(note, ' ') + 1) AS window, quantity, amount
    FROM temp.log
    WHERE kind = 'terms_changed'
), stretches AS (
    SELECT c.ref AS campaign, 0 AS since, coalesce(t.starts_at, c.starts_at) AS starts_at,
           coalesce(t.ends_at, c.ends_at) AS ends_at, coalesce(t.per_user_limit, c.per_user_limit) AS per_user_limit,
           coalesce(t.unit_price, c.unit_price) AS unit_price, coalesce(t.admission, c.admission) AS admission
    FROM campaigns c
    LEFT JOIN sale_terms t ON t.campaign = c.ref AND t.revision = 0
    UNION ALL
    SELECT campaign, seq, CAST(window AS INTEGER), CAST(substr(window, instr(window, ' ') + 1) AS INTEGER), quantity,
           amount,
           CAST(substr(window, instr(window, ' ') + instr(substr(window, instr(window, ' ') + 1), ' ') + 1) AS INTEGER)
    FROM changes
)
SELECT *, lead(since, 1, 9223372036854775807) OVER (PARTITION BY campaign ORDER BY since) AS until
FROM stretches;

CREATE INDEX temp.terms_of ON terms (campaign, since);

-- Sums of the log per campaign: of the whole log, and of its settled part.
CREATE TEMP TABLE tallies AS
SELECT c.ref AS campaign,
       count(l.seq) FILTER (WHERE l.kind = 'granted') AS grants,
       coalesce(sum(l.units), 0) AS units,  -- of users
       coalesce(sum(l.units) FILTER (WHERE l.seq < p.since), 0) AS units_at_close,
       count(l.seq) FILTER (WHERE l.kind = 'closed') AS closes,
       -- Supply at the creation: the row has the settled supply.
       c.supply - coalesce(sum(l.amount) FILTER (WHERE l.settled AND l.kind = 'stock_changed'), 0) AS first_supply,
       coalesce(sum(l.amount) FILTER (WHERE l.kind = 'stock_changed'), 0) AS added,
       coalesce(sum(l.quantity) FILTER (WHERE l.kind = 'closed'), 0) AS closed_units,
       coalesce(sum(l.amount) FILTER (WHERE l.kind = 'closed'), 0) AS closed_amount,
       coalesce(sum(l.amount) FILTER (WHERE l.kind = 'granted' AND c.kind = 'red_packet'), 0) AS claimed,
       coalesce(sum(l.units) FILTER (WHERE l.settled), 0) AS settled_units,
       -- Units returned by the close, and by orders after it, including discarded ones.
       coalesce(sum(l.quantity) FILTER (WHERE l.settled AND l.kind = 'closed'), 0)
           - coalesce(sum(l.units) FILTER (WHERE (l.settled OR l.discarded) AND l.units < 0 AND l.seq > p.since), 0)
           AS settled_returned,
       coalesce(sum(l.amount) FILTER (WHERE l.settled AND l.kind = 'closed'), 0) AS settled_refunded,
       coalesce(sum(l.amount) FILTER (WHERE l.settled AND l.kind = 'granted' AND c.kind = 'red_packet'), 0)
           AS settled_claimed,
       count(l.seq) FILTER (WHERE l.settled AND l.kind = 'closed') AS settled_closes
FROM campaigns c
LEFT JOIN (SELECT campaign, min(since) AS since FROM temp.phases WHERE phase = 'closed' GROUP BY campaign) p
    ON p.campaign = c.ref
LEFT JOIN temp.log l ON l.campaign = c.ref
GROUP BY c.ref;

CREATE INDEX temp.tallies_of ON tallies (campaign);

-- Numbers of rows to examine.
CREATE TEMP TABLE totals AS
SELECT (SELECT count(*) FROM events)                                    AS entries,
       (SELECT count(*) FROM temp.grants)                               AS grants,
       (SELECT count(*) FROM temp.steps)                                AS steps,
       (SELECT count(*) FROM campaigns)                                 AS campaigns,
       (SELECT count(*) FROM campaigns WHERE kind = 'red_packet')       AS packets,
       (SELECT count(*) FROM shares)                                    AS shares,
       (SELECT count(*) FROM orders)                                    AS orders,
       (SELECT count(*) FROM payments)                                  AS payments,
       (SELECT count(*) FROM accounts)                                  AS accounts,
       (SELECT count(*) FROM postings)                                  AS postings,
       (SELECT count(*) FROM postings WHERE source = -1)                AS direct,
       (SELECT count(*) FROM deposits)                                  AS deposits,
       (SELECT count(*) FROM payouts)                                   AS payouts,
       (SELECT count(*) FROM idempotency_keys)                          AS keys;
