-- A transaction that moves a position waits for the locked row.
CREATE TRIGGER stand_still BEFORE UPDATE ON settled FOR EACH ROW
    SET @held = (SELECT id FROM held LOCK IN SHARE MODE);
