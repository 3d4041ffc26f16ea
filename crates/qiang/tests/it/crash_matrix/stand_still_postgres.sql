-- Whoever moves a position waits for the row that is held.
CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM id FROM held FOR SHARE;
    RETURN NEW;
END
$$;
CREATE TRIGGER stand_still BEFORE UPDATE ON settled FOR EACH ROW EXECUTE FUNCTION stand_still();
