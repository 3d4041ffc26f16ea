-- Returns: paid orders that were taken back, and postings of what is owed for them. A seller's account may be overdrawn
-- by them. MariaDB changes the CHECK of a column with the column; MySQL has names of its own for such checks. What a
-- broken migration left is gone over again, so each statement finds out whether it is needed.
SET @mariadb = VERSION() LIKE '%MariaDB%';

SET @change = (
    SELECT CASE
        WHEN coalesce(max(constraint_name = 'orders_states'), 0) THEN 'DO 0'
        WHEN @mariadb THEN 'ALTER TABLE orders MODIFY state VARCHAR(16) NOT NULL, ADD CONSTRAINT orders_states
            CHECK (state IN (''held'', ''paid'', ''cancelled'', ''expired'', ''returned''))'
        ELSE concat('ALTER TABLE orders DROP CHECK `', max(constraint_name), '`, ADD CONSTRAINT orders_states ',
                    'CHECK (state IN (''held'', ''paid'', ''cancelled'', ''expired'', ''returned''))')
    END
    FROM information_schema.check_constraints
    WHERE constraint_schema = DATABASE() AND check_clause LIKE '%cancelled%' AND check_clause LIKE '%expired%'
);
PREPARE change_checks FROM @change;
EXECUTE change_checks;
DEALLOCATE PREPARE change_checks;

SET @change = (
    SELECT CASE
        WHEN coalesce(max(constraint_name = 'postings_kinds'), 0) THEN 'DO 0'
        WHEN @mariadb THEN 'ALTER TABLE postings MODIFY kind VARCHAR(16) NOT NULL, ADD CONSTRAINT postings_kinds
            CHECK (kind IN (''deposit'', ''fund'', ''grant'', ''refund'', ''residue'', ''payment'', ''refund_due'',
                ''return''))'
        ELSE concat('ALTER TABLE postings DROP CHECK `', max(constraint_name), '`, ADD CONSTRAINT postings_kinds ',
            'CHECK (kind IN (''deposit'', ''fund'', ''grant'', ''refund'', ''residue'', ''payment'', ''refund_due'', ',
            '''return''))')
    END
    FROM information_schema.check_constraints
    WHERE constraint_schema = DATABASE() AND check_clause LIKE '%residue%' AND check_clause LIKE '%deposit%'
);
PREPARE change_checks FROM @change;
EXECUTE change_checks;
DEALLOCATE PREPARE change_checks;

SET @change = (
    SELECT CASE
        WHEN coalesce(max(constraint_name = 'accounts_owing'), 0) THEN 'DO 0'
        ELSE concat('ALTER TABLE accounts DROP ', IF(@mariadb, 'CONSTRAINT', 'CHECK'), ' `', max(constraint_name),
                    '`, ADD CONSTRAINT accounts_owing CHECK (purpose IN (''outside'', ''user'') OR balance >= 0)')
    END
    FROM information_schema.check_constraints
    WHERE constraint_schema = DATABASE() AND check_clause LIKE '%outside%' AND check_clause LIKE '%balance%'
);
PREPARE change_checks FROM @change;
EXECUTE change_checks;
DEALLOCATE PREPARE change_checks;
