-- Tables of a ledger, for the copy from a database. They have no key, constraint or trigger, because the checks must
-- see rows that break a rule. Every column is read from the database by name.
CREATE TABLE campaigns (
    ref INTEGER, id TEXT, kind TEXT, owner TEXT, title TEXT, currency TEXT, ack TEXT,
    starts_at INTEGER, ends_at INTEGER, created_at INTEGER, updated_at INTEGER, supply INTEGER, per_user_limit INTEGER,
    total INTEGER, split_rule TEXT, split_min INTEGER, split_max INTEGER, split_version INTEGER,
    seed BLOB, commitment BLOB, server_seed BLOB, client_seed BLOB,
    unit_price INTEGER, hold_ms INTEGER, requirements TEXT, admission INTEGER,
    payment_policy TEXT, payment_tolerance INTEGER,
    phase TEXT, parts INTEGER, granted INTEGER, returned INTEGER, refunded INTEGER, terms_revision INTEGER
);
CREATE TABLE sale_terms (
    campaign INTEGER, revision INTEGER, at INTEGER, starts_at INTEGER, ends_at INTEGER, per_user_limit INTEGER,
    unit_price INTEGER, admission INTEGER
);
CREATE TABLE parts (
    campaign INTEGER, partition INTEGER, phase TEXT, granted INTEGER, returned INTEGER, refunded INTEGER
);
CREATE TABLE shares (campaign INTEGER, number INTEGER, amount INTEGER, user TEXT, granted_at INTEGER);
CREATE TABLE orders (
    campaign INTEGER, number INTEGER, user TEXT, quantity INTEGER, amount INTEGER, state TEXT, one_per_user INTEGER,
    granted_at INTEGER, hold_until INTEGER, updated_at INTEGER, key TEXT, returned_in_parts INTEGER,
    cancelled_in_parts INTEGER, extension_ms INTEGER
);
CREATE TABLE order_returns (
    campaign INTEGER, number INTEGER, key TEXT, quantity INTEGER, amount INTEGER, at INTEGER, kind TEXT
);
CREATE TABLE payments (
    campaign INTEGER, number INTEGER, payment TEXT, outcome TEXT, amount INTEGER, at INTEGER, currency TEXT
);
CREATE TABLE accounts (id INTEGER, owner TEXT, purpose TEXT, currency TEXT, balance INTEGER);
CREATE TABLE postings (
    source INTEGER, seq INTEGER, kind TEXT, debit INTEGER, credit INTEGER, amount INTEGER, campaign INTEGER,
    number INTEGER, at INTEGER
);
CREATE TABLE direct_postings (source INTEGER, seq INTEGER);
CREATE TABLE deposits (id TEXT, posting INTEGER);
CREATE TABLE payouts (
    kind TEXT, reference TEXT, posting INTEGER, campaign INTEGER, number INTEGER, amount INTEGER
);
CREATE TABLE idempotency_keys (scope TEXT, key TEXT, fingerprint BLOB, id TEXT, at INTEGER);
CREATE TABLE settled (partition INTEGER, seq INTEGER);
CREATE TABLE set_aside (
    partition INTEGER, seq INTEGER, campaign TEXT, entry TEXT, reason TEXT, waits_for INTEGER, at INTEGER,
    discard INTEGER
);
CREATE TABLE repairs (
    partition INTEGER, epoch TEXT, follows TEXT, at INTEGER, lost_from INTEGER, lost_to INTEGER, unnamed INTEGER,
    reason TEXT, upto INTEGER
);
CREATE TABLE withheld (
    partition INTEGER, epoch TEXT, campaign INTEGER, units INTEGER, amount INTEGER, released_at INTEGER
);
CREATE TABLE withheld_numbers (
    partition INTEGER, epoch TEXT, campaign INTEGER, first_number INTEGER, last_number INTEGER, step INTEGER
);
