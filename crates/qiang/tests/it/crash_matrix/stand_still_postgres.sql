-- A transaction that moves a position waits for the locked row.
CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM id FROM held FOR SHARE;
    RETURN NEW;
END
$$;
CREATE TRIGGER stand_still BEFORE UPDATE ON settled FOR EACH ROW EXECUTE FUNCTION stand_still();
