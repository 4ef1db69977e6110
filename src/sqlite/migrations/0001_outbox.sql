-- The outbox: one table for what is still to be done and for what is finished. Times are microseconds since 1970, ids are
-- 16-byte blobs.
--
-- SQLite keeps no dead versions of rows, so what is finished stays where it is and only leaves the index of the queue:
-- moving it to a table of its own would write it a second time. Rows are kept by an integer key that only grows: SQLite
-- appends those to the last page, where a table ordered by the blob would split pages and write half as many again for
-- every commit.

-- template: queue_1 queue=outbox
