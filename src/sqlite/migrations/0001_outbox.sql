-- The outbox: one table for unfinished and finished messages. Times are microseconds since 1970.
-- Ids are 16-byte blobs.
--
-- SQLite keeps no dead versions of rows. So a finished row stays in its place and only leaves the
-- index of the queue; moving it to another table would write it a second time. The key of the rows
-- is an integer that only grows, so SQLite appends new rows to the last page. A table ordered by
-- the blob would split pages, and write half as many again for every commit.

-- template: queue_1 queue=outbox
