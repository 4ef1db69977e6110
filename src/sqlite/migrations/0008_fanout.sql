-- compatible-with: 7
-- Fan-out on a schedule: the cadence of each kind of work, and the progress of each slice. Times
-- are microseconds since 1970, durations are milliseconds.

-- One row per topic and work key. The row with the work key '' belongs to a registration for all
-- work keys, and applies to the work keys that have no row of their own. A registration stores
-- default_every, default_jitter and settle; an operator stores set_every and set_jitter, which win.
-- A row that only an operator has stored has no defaults, no settle and no job.
create table {schema}_fanout_policy (
  topic          text    not null check (length(topic) between 1 and 100),
  work_key       text    not null check (length(work_key) <= 100),
  default_every  integer,
  default_jitter integer,
  set_every      integer,
  set_jitter     integer,
  settle         integer,                   -- windows end this time before their message
  job            text,                      -- the name of the job that plans the rounds
  created_at     integer not null,
  updated_at     integer not null,
  primary key (topic, work_key)
) strict, without rowid;

-- One row per slice that was ever enqueued or completed. message_id is the message of the slice
-- that was enqueued last, until the slice is completed. While that message is in the queue, the
-- slice is not enqueued again. replaced_id is the message before it, if that one ended without
-- completing the slice.
create table {schema}_fanout_cursor (
  topic             text    not null check (length(topic) between 1 and 100),
  work_key          text    not null check (length(work_key) between 1 and 100),
  shard_key         text    not null check (length(shard_key) between 1 and 256),
  created_at        integer not null,
  updated_at        integer not null,
  last_completed_at integer,
  enqueued_at       integer,
  message_id        blob    check (length(message_id) = 16),
  replaced_id       blob    check (length(replaced_id) = 16),
  primary key (topic, work_key, shard_key)
) strict, without rowid;

create view {schema}_fanout_policies as
  select p.topic, nullif(p.work_key, '') as work_key,
         coalesce(p.set_every, p.default_every, a.set_every, a.default_every) as every,
         coalesce(p.set_jitter, p.default_jitter, a.set_jitter, a.default_jitter) as jitter,
         p.default_every, p.default_jitter, coalesce(p.settle, a.settle, 0) as settle,
         p.set_every is not null or p.set_jitter is not null as set_by_operator,
         p.job, p.created_at, p.updated_at
    from {schema}_fanout_policy as p
    left join {schema}_fanout_policy as a
      on a.topic = p.topic and a.work_key = '' and p.work_key <> '';

-- status: ready and in_progress are those of the slice's message. failed: the message is a dead
-- letter.
create view {schema}_fanout_cursors as
  select f.topic, f.work_key, f.shard_key, f.last_completed_at, f.enqueued_at, f.message_id,
         case when o.status = 3 then 'failed' when o.status is null or o.status = 1 then 'idle'
              when o.lease_until > 0 then 'in_progress' else 'ready' end as status,
         case when o.status in (0, 3) then o.last_error end as last_error,
         f.created_at, f.updated_at
    from {schema}_fanout_cursor as f
    left join {schema}_outbox as o on o.id = f.message_id;
