-- The currency of a payment that was not the order's price, with the amount that arrived; null where the price arrived.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE payments ADD COLUMN currency CHAR(3) COLLATE utf8mb4_bin')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'payments' AND column_name = 'currency'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;

-- The currency of an event's amount; null where it is the campaign's.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE webhook_events ADD COLUMN currency CHAR(3) COLLATE utf8mb4_bin')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'webhook_events' AND column_name = 'currency'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
