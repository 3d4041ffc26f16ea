-- The answer to a command, kept with its key. Null while it is not known whether the command was carried out.
ALTER TABLE idempotency_keys ADD COLUMN answer TEXT;
