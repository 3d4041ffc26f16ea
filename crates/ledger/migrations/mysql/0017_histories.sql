-- What users have done, newest first: their orders, and what moved in their accounts. An index ends in the table's
-- primary key by itself. Payments by reference. What a broken migration left is gone over again.
SET @add_key = (
    SELECT IF(count(*) = 0, 'CREATE INDEX orders_of_user ON orders (user, granted_at)', 'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders' AND index_name = 'orders_of_user'
);
PREPARE add_key FROM @add_key;
EXECUTE add_key;
DEALLOCATE PREPARE add_key;

SET @add_key = (
    SELECT IF(count(*) = 0, 'CREATE INDEX postings_in ON postings (credit, at)', 'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'postings' AND index_name = 'postings_in'
);
PREPARE add_key FROM @add_key;
EXECUTE add_key;
DEALLOCATE PREPARE add_key;

SET @add_key = (
    SELECT IF(count(*) = 0, 'CREATE INDEX postings_out ON postings (debit, at)', 'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'postings' AND index_name = 'postings_out'
);
PREPARE add_key FROM @add_key;
EXECUTE add_key;
DEALLOCATE PREPARE add_key;

SET @add_key = (
    SELECT IF(count(*) = 0, 'CREATE INDEX payments_reference ON payments (payment)', 'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'payments' AND index_name = 'payments_reference'
);
PREPARE add_key FROM @add_key;
EXECUTE add_key;
DEALLOCATE PREPARE add_key;
