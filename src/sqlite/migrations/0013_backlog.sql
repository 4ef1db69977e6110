-- compatible-with: 12
-- The backlog over time, by queue. Times are microseconds since 1970.

-- step: the length of the bucket in seconds, 10 or 60. The numbers are the largest of the bucket,
-- counted up to a limit.
create table {schema}_backlog (
  step        integer not null,
  bucket      integer not null,
  queue       text    not null,
  ready       integer not null,
  in_progress integer not null,
  primary key (step, bucket, queue)
) strict, without rowid;
