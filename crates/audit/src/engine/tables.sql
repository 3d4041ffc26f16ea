-- What an engine on Redis said of itself, for the checks that hold the ledger against it.

-- Its partitions, with how far the ledger has each.
CREATE TEMP TABLE heads (
    partition INTEGER PRIMARY KEY,
    settled   INTEGER NOT NULL,
    head      INTEGER,            -- the last entry of its log; null: there is no state
    missing   INTEGER NOT NULL    -- the first entry that is neither settled nor in the log; 0: there is none
);

-- The campaigns that the ledger has too, or their parts, after the entry `upto`.
CREATE TEMP TABLE engine_parts (
    partition INTEGER NOT NULL,
    campaign  TEXT    NOT NULL,
    granted   INTEGER NOT NULL,
    returned  INTEGER NOT NULL,
    withheld  INTEGER NOT NULL,
    supply    INTEGER NOT NULL,   -- without what is withheld
    remaining INTEGER NOT NULL,
    upto      INTEGER NOT NULL,
    stock     INTEGER,            -- units in all, withheld ones included; null: another part knows
    is_first  INTEGER NOT NULL,
    revision  INTEGER NOT NULL,   -- of a sale's terms; 0: those of its creation
    starts_at INTEGER,
    ends_at   INTEGER,
    per_user_limit INTEGER,
    unit_price INTEGER,
    admission INTEGER,            -- in percent; null: of a packet
    PRIMARY KEY (campaign, partition)
) WITHOUT ROWID;

-- Spread campaigns of which all parts were read as of one moment.
CREATE TEMP TABLE engine_wholes (
    campaign TEXT    PRIMARY KEY,
    units    INTEGER NOT NULL,    -- of all parts, with what is withheld, and what passes from one to another
    stock    INTEGER              -- units in all, as the first part has it; null: it does not say
) WITHOUT ROWID;

-- The entries in flight: in the log, and not settled; and those that are quarantined.
CREATE TEMP TABLE flight (
    partition INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    campaign  TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    number    INTEGER,            -- of an order
    quantity  INTEGER,            -- granted: units; closed: units returned; stock_changed: units that came;
                                  -- returned: units of a part
    PRIMARY KEY (campaign, partition, seq)
) WITHOUT ROWID;
