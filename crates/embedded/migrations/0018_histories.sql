-- What users have done, newest first: their orders, and what moved in their accounts. An index ends in the table's
-- primary key by itself. Of what goes out only those kinds are in the index that go out of users' accounts, so that a
-- share costs one entry and not two. Payments by reference.
CREATE INDEX orders_of_user ON orders (user, granted_at);

CREATE INDEX postings_in ON postings (credit, at);

CREATE INDEX postings_out ON postings (debit, at)
    WHERE kind IN ('fund', 'return', 'refund_paid', 'withdrawal', 'reversal');

CREATE INDEX payments_reference ON payments (payment);
