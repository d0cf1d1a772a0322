-- How each script begins. After this come its usual way, if it has one of its own, then what all
-- scripts share, then what it does itself.
--
-- KEYS  1 readlock, a set   2 writelock, a string   3 when each identifier ends, a sorted set
--       4 writers in line, a sorted set by when they came   5 readers in line, a set
--       6 the last token of the slot
-- ARGV  1 our identifier   2 the record's name   3 the lease in microseconds
--       4 and more: identifiers that we may still have instead, because a conversion was not done
--
-- An upgrade or a downgrade gives the lock a new identifier. Whichever of them comes late, when
-- another was done since, finds nothing that it could convert.
-- An upgrader stands before all writers as '^' and its identifier, which is in readlock too.
-- An identifier without an end was put there by hand, and is never removed. So that ours never look
-- like that, also if a script fails half-way: an end is the first thing to come and the last to go,
-- and who has none gets nothing from the line.
local read, write, ends, writers, readers, fence = unpack(KEYS)
local me, record, lease = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call
local now, first_end
