-- Joins: groups of messages (steps) whose end is awaited together. Times are microseconds since
-- 1970. Ids are 16-byte blobs.

create table {schema}_outbox_join (
  join_id         blob    not null primary key check (length(join_id) = 16),
  grouping_key    text    check (length(grouping_key) between 1 and 255),
  expected_steps  integer not null check (expected_steps > 0),
  completed_steps integer not null default 0 check (completed_steps >= 0),
  failed_steps    integer not null default 0 check (failed_steps >= 0),
  -- status: pending, completed, failed, cancelled
  status          integer not null default 0 check (status between 0 and 3),
  created_at      integer not null,
  last_updated_at integer not null,
  finished_at     integer,                       -- when it left pending
  deadline        integer,                       -- a join that is pending then fails
  reason          text,                          -- why it failed, if no step failed
  metadata        text,
  unlogged        integer not null default 0,    -- ended, nothing waited, not logged yet
  check (completed_steps + failed_steps <= expected_steps),
  check ((status = 0) = (finished_at is null))
) strict, without rowid;

create index {schema}_outbox_join_grouping_key on {schema}_outbox_join (grouping_key, join_id)
  where grouping_key is not null;
create index {schema}_outbox_join_status on {schema}_outbox_join (status, join_id);
create index {schema}_outbox_join_deadline on {schema}_outbox_join (deadline)
  where finished_at is null and deadline is not null;
create index {schema}_outbox_join_finished on {schema}_outbox_join (finished_at)
  where finished_at is not null;
create index {schema}_outbox_join_unlogged on {schema}_outbox_join (join_id) where unlogged = 1;

create table {schema}_outbox_join_member (
  join_id    blob    not null references {schema}_outbox_join on delete cascade,
  message_id blob    not null check (length(message_id) = 16),
  -- status: pending, completed, failed
  status     integer not null default 0 check (status between 0 and 2),
  created_at integer not null,
  primary key (join_id, message_id)
) strict, without rowid;

-- One search in this index tells whether a message is a step of any pending join.
create index {schema}_outbox_join_member_pending on {schema}_outbox_join_member (message_id)
  where status = 0;

-- The messages that wait for a join. The end of the join makes them ready.
create table {schema}_outbox_join_waiter (
  join_id    blob not null references {schema}_outbox_join on delete cascade,
  message_id blob not null,
  primary key (join_id, message_id)
) strict, without rowid;

create view {schema}_outbox_joins as
  select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at,
         last_updated_at, finished_at, deadline, reason, metadata
    from {schema}_outbox_join;

create view {schema}_outbox_join_members as
  select join_id, message_id as outbox_message_id, status, created_at
    from {schema}_outbox_join_member;
