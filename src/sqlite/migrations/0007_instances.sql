-- Instances: the processes that work on this database. Times are microseconds since 1970.

-- One row per process. A process updates `heartbeat_at` every 10 seconds and deletes its row when
-- it ends. handlers: for each queue, {"topics": [...], "all_topics": true or false}.
create table {schema}_instance (
  instance_id  blob    not null primary key check (length(instance_id) = 16),
  pid          integer not null,
  started_at   integer not null,
  heartbeat_at integer not null,
  host         text    not null,
  version      text    not null,
  state        text    not null check (state in ('running', 'draining')),
  handlers     text    not null
) strict, without rowid;
