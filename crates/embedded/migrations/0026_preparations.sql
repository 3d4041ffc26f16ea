-- Shares that are written before their packet is entered, in several transactions: a packet with many of them would
-- hold up all others if it were entered at once. `ref` is what the packet's row will have. Until there is one nobody
-- sees the shares; what nobody completes is taken out again.
CREATE TABLE preparations (
    ref INTEGER PRIMARY KEY
) STRICT;
