-- Stretches of the log that stand in files of their own, a file a month: `file` in `folder`, where it was written,
-- with the digest of all its bytes. From `first` to `last` the log is there, without gaps, and leaves `events`.
-- Programs that do not know it would take the log for damaged.
CREATE TABLE archives (
    first  INTEGER PRIMARY KEY CHECK (first > 0),
    last   INTEGER NOT NULL CHECK (last >= first),
    month  TEXT    NOT NULL,
    file   TEXT    NOT NULL,
    folder TEXT    NOT NULL,
    sha256 TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
