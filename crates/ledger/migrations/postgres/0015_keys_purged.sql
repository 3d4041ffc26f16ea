-- Keys are forgotten after a while, but for references of payments: the oldest are found by this.
CREATE INDEX idempotency_keys_purge ON idempotency_keys (at) WHERE scope <> 'payment';
