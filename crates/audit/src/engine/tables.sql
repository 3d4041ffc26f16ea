-- State of an engine on Redis, for the checks that compare the ledger with it.

-- Partitions, with the settled position of each.
CREATE TEMP TABLE heads (
    partition INTEGER PRIMARY KEY,
    settled   INTEGER NOT NULL,
    head      INTEGER,            -- last entry of its log; null: no state
    missing   INTEGER NOT NULL    -- first entry that is neither settled nor in the log; 0: none
);

-- Campaigns of the ledger, or their parts, in the engine, as of the entry `upto`.
CREATE TEMP TABLE engine_parts (
    partition INTEGER NOT NULL,
    campaign  TEXT    NOT NULL,
    granted   INTEGER NOT NULL,
    returned  INTEGER NOT NULL,
    withheld  INTEGER NOT NULL,
    supply    INTEGER NOT NULL,   -- without withheld units
    remaining INTEGER NOT NULL,
    upto      INTEGER NOT NULL,
    stock     INTEGER,            -- total units, with withheld ones; null: known to another part
    is_first  INTEGER NOT NULL,
    revision  INTEGER NOT NULL,   -- of a sale's terms; 0: terms of its creation
    starts_at INTEGER,
    ends_at   INTEGER,
    per_user_limit INTEGER,
    unit_price INTEGER,
    admission INTEGER,            -- in percent; null: a packet
    PRIMARY KEY (campaign, partition)
) WITHOUT ROWID;

-- Spread campaigns with all parts read as of one moment.
CREATE TEMP TABLE engine_wholes (
    campaign TEXT    PRIMARY KEY,
    units    INTEGER NOT NULL,    -- of all parts, with withheld units and transfers
    stock    INTEGER              -- total units, from the first part; null: unknown
) WITHOUT ROWID;

-- Entries in flight (in the log and not settled), and quarantined entries.
CREATE TEMP TABLE flight (
    partition INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    campaign  TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    number    INTEGER,            -- of an order
    quantity  INTEGER,            -- granted: units; closed: returned units; stock_changed: added units;
                                  -- returned, part_cancelled: units of that part
    PRIMARY KEY (campaign, partition, seq)
) WITHOUT ROWID;

-- Parts of sales whose buyers were read and did not change in between.
CREATE TEMP TABLE engine_user_parts (
    campaign  TEXT    NOT NULL,
    partition INTEGER NOT NULL,
    PRIMARY KEY (campaign, partition)
) WITHOUT ROWID;

-- Buyers in these parts.
CREATE TEMP TABLE engine_users (
    campaign  TEXT    NOT NULL,
    user      TEXT    NOT NULL,
    partition INTEGER NOT NULL,
    units     INTEGER NOT NULL,   -- units that the buyer is said to have
    PRIMARY KEY (campaign, user, partition)
) WITHOUT ROWID;
