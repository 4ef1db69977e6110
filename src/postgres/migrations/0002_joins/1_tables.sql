-- Joins: groups of messages (steps) whose end is awaited together. The tables are private. The
-- functions and views are the public interface.
--
-- Every function takes locks in one order: messages by id, then joins by id, then members. A
-- transaction that ends a message counts its steps, in a later statement than the one that locked
-- the message. A transaction that attaches a message locks the message first. So one of the two
-- always sees the other.
--
-- Two cases are left to outbox_join_catch_up, which a started Platform calls every second while
-- messages wait. First, a step ends in a transaction with an old snapshot (REPEATABLE READ or
-- SERIALIZABLE), which cannot see a later attach. Second, another transaction holds the lock of a
-- waiting message at the moment when its join ends. A third case is left to the next check of the
-- waiting message: a message is enqueued and ends while an earlier attach of it is not committed
-- yet.

-- No index has a column that counting changes, so counting a step is a HOT update.
create table {schema}.outbox_join (
  join_id         uuid        not null,
  grouping_key    {schema}.queue_name,
  expected_steps  integer     not null,
  completed_steps integer     not null default 0,
  failed_steps    integer     not null default 0,
  status          smallint    not null default 0,   -- 0 pending, 1 completed, 2 failed, 3 cancelled
  created_at      timestamptz not null default {schema}.clock(),
  last_updated_at timestamptz not null default {schema}.clock(),
  finished_at     timestamptz,                      -- when it left pending
  deadline        {schema}.queue_time,             -- a join that is pending then fails
  reason          text,                             -- why it failed, if no step failed
  metadata        text,
  unlogged        boolean     not null default false,   -- ended, nothing waited, not logged yet
  constraint outbox_join_pkey primary key (join_id),
  constraint outbox_join_steps check (expected_steps > 0 and completed_steps >= 0
                                      and failed_steps >= 0
                                      and completed_steps + failed_steps <= expected_steps),
  constraint outbox_join_status check (status between 0 and 3
                                       and (status = 0) = (finished_at is null))
) with (fillfactor = 70);

create index outbox_join_grouping_key on {schema}.outbox_join (grouping_key, join_id)
  where grouping_key is not null;
create index outbox_join_status on {schema}.outbox_join (status, join_id);
create index outbox_join_deadline on {schema}.outbox_join (deadline)
  where finished_at is null and deadline is not null;
create index outbox_join_finished on {schema}.outbox_join (finished_at)
  where finished_at is not null;
create index outbox_join_unlogged on {schema}.outbox_join (join_id) where unlogged;

create table {schema}.outbox_join_member (
  join_id    uuid        not null,
  message_id uuid        not null,
  status     smallint    not null default 0,   -- 0 pending, 1 completed, 2 failed
  created_at timestamptz not null default {schema}.clock(),
  constraint outbox_join_member_pkey primary key (join_id, message_id),
  constraint outbox_join_member_join foreign key (join_id)
    references {schema}.outbox_join on delete cascade,
  constraint outbox_join_member_status check (status between 0 and 2)
) with (fillfactor = 70);

create index outbox_join_member_message on {schema}.outbox_join_member (message_id);

-- The messages that wait for a join. The end of the join makes them ready.
create table {schema}.outbox_join_waiter (
  join_id    uuid    not null,
  message_id uuid    not null,
  missed     boolean not null default false,   -- the join ended while the message was locked
  constraint outbox_join_waiter_pkey primary key (join_id, message_id),
  constraint outbox_join_waiter_join foreign key (join_id)
    references {schema}.outbox_join on delete cascade
);

create index outbox_join_waiter_missed on {schema}.outbox_join_waiter (message_id) where missed;

-- Messages that ended in a transaction with an old snapshot. outcome: 1 done, 2 failed.
create table {schema}.outbox_join_uncounted (
  message_id uuid     not null,
  outcome    smallint not null
);

create view {schema}.outbox_joins as
  select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at,
         last_updated_at, finished_at, deadline, reason, metadata
    from {schema}.outbox_join;

comment on view {schema}.outbox_joins is
  'Joins: how many steps they expect, how many have ended, and their status.';

create view {schema}.outbox_join_members as
  select join_id, message_id as outbox_message_id, status, created_at
    from {schema}.outbox_join_member;
comment on view {schema}.outbox_join_members is
  'The messages that are steps of joins.';
