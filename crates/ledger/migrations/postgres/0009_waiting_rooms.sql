-- Campaigns with a waiting room. Programs that do not know it would let everybody pass the line.
CREATE TABLE waiting_rooms (
    campaign TEXT COLLATE "C" PRIMARY KEY
);
