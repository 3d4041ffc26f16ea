-- When nobody could pay: the engine was down, or had stopped. Orders are held for as much longer. When it was up last
-- is in the newest entry of the log, or in `probe`.
CREATE TABLE downtimes (
    ended INTEGER PRIMARY KEY,
    began INTEGER NOT NULL
) STRICT;
