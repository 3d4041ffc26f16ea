-- Assigns shares to users. A free share with the same amount counts 2. Any other share stays as it is and counts 1, and
-- so does a missing one.
INSERT INTO shares (campaign, number, user, amount, granted_at)
VALUES /*rows , */(?, ?, ?, ?, ?)/*end*/
ON DUPLICATE KEY UPDATE
    granted_at = IF(user IS NULL AND coalesce(amount, VALUES(amount)) = VALUES(amount), VALUES(granted_at), granted_at),
    amount = IF(user IS NULL AND granted_at IS NOT NULL, VALUES(amount), amount),
    user = IF(user IS NULL AND granted_at IS NOT NULL, VALUES(user), user)
