-- Indexes for the checks, without unique keys. Also the log and the reservations for large packets, which a database
-- does not have.
CREATE INDEX campaigns_ref ON campaigns (ref);
CREATE INDEX campaigns_id ON campaigns (id);
CREATE INDEX parts_key ON parts (campaign, partition);
CREATE INDEX shares_key ON shares (campaign, number);
CREATE INDEX shares_user ON shares (campaign, user) WHERE user IS NOT NULL;
CREATE INDEX orders_key ON orders (campaign, number);
CREATE INDEX orders_user ON orders (campaign, user);
CREATE INDEX payments_key ON payments (campaign, number, payment);
CREATE INDEX order_returns_key ON order_returns (campaign, number, key);
CREATE INDEX accounts_id ON accounts (id);
CREATE INDEX accounts_owner ON accounts (owner, purpose, currency);
CREATE INDEX postings_key ON postings (source, seq);
CREATE INDEX deposits_id ON deposits (id);
CREATE INDEX deposits_posting ON deposits (posting);
CREATE INDEX payouts_key ON payouts (kind, reference);
CREATE INDEX payouts_posting ON payouts (posting);
CREATE INDEX payouts_of ON payouts (campaign, number);
CREATE INDEX keys_key ON idempotency_keys (scope, key);
CREATE INDEX settled_key ON settled (partition);
CREATE INDEX aside_key ON set_aside (partition, seq);

CREATE TABLE preparations (ref INTEGER);
CREATE TABLE events (
    seq      INTEGER,
    at       INTEGER,
    campaign INTEGER,
    kind     INTEGER,
    number   INTEGER,
    user     TEXT,
    quantity INTEGER,
    amount   INTEGER,
    note     TEXT
);
