-- Joins: groups of messages (steps) that are waited for together. Tables are private; functions and views are the contract.
--
-- Locks are taken in one order everywhere: messages by id, then joins by id, then members. Whoever ends a message counts its
-- steps in the same transaction, but in a later statement than the one that locked it; whoever attaches a message locks it
-- first. So one of the two always sees the other.
--
-- Two things are left to outbox_join_catch_up, which a started Platform calls every second while
-- messages wait: a step that ends in a transaction with an old snapshot (REPEATABLE READ,
-- SERIALIZABLE), which cannot see a later attach; and a waiting message that somebody else has
-- locked at the moment when its join ends. One case is left to the next look of the waiting
-- message: a message that is enqueued and ends while an attach that came before it is not
-- committed.

-- No index holds a column that counting changes, so that counting a step is a HOT update.
create table {schema}.outbox_join (
  join_id         uuid        not null,
  grouping_key    {schema}.queue_name,
  expected_steps  integer     not null,
  completed_steps integer     not null default 0,
  failed_steps    integer     not null default 0,
  status          smallint    not null default 0,   -- 0 pending, 1 completed, 2 failed, 3 cancelled
  created_at      timestamptz not null default {schema}.clock(),
  last_updated_at timestamptz not null default {schema}.clock(),
  finished_at     timestamptz,                      -- since when it is not pending any more
  deadline        {schema}.queue_time,             -- pending until then, it fails
  reason          text,                             -- why it failed, if not by its steps
  metadata        text,
  unlogged        boolean     not null default false,   -- ended while no message waited for it, and nobody has logged that
  constraint outbox_join_pkey primary key (join_id),
  constraint outbox_join_steps check (expected_steps > 0 and completed_steps >= 0 and failed_steps >= 0
                                      and completed_steps + failed_steps <= expected_steps),
  constraint outbox_join_status check (status between 0 and 3 and (status = 0) = (finished_at is null))
) with (fillfactor = 70);

create index outbox_join_grouping_key on {schema}.outbox_join (grouping_key, join_id) where grouping_key is not null;
create index outbox_join_status on {schema}.outbox_join (status, join_id);
create index outbox_join_deadline on {schema}.outbox_join (deadline) where finished_at is null and deadline is not null;
create index outbox_join_finished on {schema}.outbox_join (finished_at) where finished_at is not null;
create index outbox_join_unlogged on {schema}.outbox_join (join_id) where unlogged;

create table {schema}.outbox_join_member (
  join_id    uuid        not null,
  message_id uuid        not null,
  status     smallint    not null default 0,   -- 0 pending, 1 completed, 2 failed
  created_at timestamptz not null default {schema}.clock(),
  constraint outbox_join_member_pkey primary key (join_id, message_id),
  constraint outbox_join_member_join foreign key (join_id) references {schema}.outbox_join on delete cascade,
  constraint outbox_join_member_status check (status between 0 and 2)
) with (fillfactor = 70);

create index outbox_join_member_message on {schema}.outbox_join_member (message_id);

-- The messages that wait for a join: its end makes them ready.
create table {schema}.outbox_join_waiter (
  join_id    uuid    not null,
  message_id uuid    not null,
  missed     boolean not null default false,   -- the join ended while somebody else had locked the message
  constraint outbox_join_waiter_pkey primary key (join_id, message_id),
  constraint outbox_join_waiter_join foreign key (join_id) references {schema}.outbox_join on delete cascade
);

create index outbox_join_waiter_missed on {schema}.outbox_join_waiter (message_id) where missed;

-- Messages that ended in a transaction with an old snapshot: 1 done, 2 failed.
create table {schema}.outbox_join_uncounted (
  message_id uuid     not null,
  outcome    smallint not null
);

create view {schema}.outbox_joins as
  select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at, last_updated_at,
         finished_at, deadline, reason, metadata
    from {schema}.outbox_join;

comment on view {schema}.outbox_joins is
  'Joins: how many steps they expect, how many have ended, and their status.';
create view {schema}.outbox_join_members as
  select join_id, message_id as outbox_message_id, status, created_at from {schema}.outbox_join_member;

-- Makes the messages ready that wait for these joins. A message that is leased looks at the join by
comment on view {schema}.outbox_join_members is
  'The messages that are steps of joins.';
-- itself. A message that somebody else has locked is passed over, because its lock comes before
-- those of the joins: outbox_join_catch_up makes it ready. For the functions below, not for
-- callers.
create function {schema}._outbox_join_wake(joins uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := array(
    select o.ctid from {schema}.outbox o
     where o.id = any (array(select w.message_id from {schema}.outbox_join_waiter w where w.join_id = any (joins)))
       and o.lease_until is null and o.ready_at > {schema}.clock()
     order by o.id
     for no key update skip locked);
begin
  if v_rows <> '{}' then
    update {schema}.outbox o set ready_at = {schema}.clock() where o.ctid = any (v_rows);
    perform {schema}._wake();
  end if;
  update {schema}.outbox_join_waiter w set missed = true
   where w.join_id = any (joins) and not w.missed
     and exists (select from {schema}.outbox o
                  where o.id = w.message_id and o.lease_until is null and o.ready_at > {schema}.clock());
end
$function$;

-- Counts these messages in these joins: what counts is that a member's row leaves pending, never that somebody called. One
-- update per join, however many steps it is. Answers how many members changed. For the functions below, not for callers.
create function {schema}._outbox_join_count(joins uuid[], ids uuid[], outcome integer) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_steps integer;
  v_done uuid[];
begin
  perform from {schema}.outbox_join j where j.join_id = any (joins) order by j.join_id for no key update;
  with changed as (
    update {schema}.outbox_join_member m set status = outcome
     where m.message_id = any (ids) and m.join_id = any (joins) and m.status = 0
    returning m.join_id
  ),
  tally as (
    select c.join_id, count(*)::integer as steps from changed c group by c.join_id
  ),
  counted as (
    update {schema}.outbox_join j
       set completed_steps = j.completed_steps + case outcome when 1 then now_counted.steps else 0 end,
           failed_steps = j.failed_steps + case outcome when 2 then now_counted.steps else 0 end,
           status = case when not now_counted.last then 0 when outcome = 2 or j.failed_steps > 0 then 2 else 1 end,
           finished_at = case when now_counted.last then {schema}.clock() end,
           last_updated_at = {schema}.clock(),
           unlogged = now_counted.last and not exists (
             select from {schema}.outbox_join_waiter w where w.join_id = j.join_id)
      from (select t.join_id, least(t.steps, b.expected_steps - b.completed_steps - b.failed_steps) as steps,
                   t.steps >= b.expected_steps - b.completed_steps - b.failed_steps as last
              from tally t join {schema}.outbox_join b on b.join_id = t.join_id
             where b.join_id = any (joins)) now_counted
     where j.join_id = now_counted.join_id and j.join_id = any (joins) and j.status = 0
    returning j.join_id, j.status
  )
  select (select sum(t.steps) from tally t), array_agg(c.join_id) filter (where c.status <> 0)
    into v_steps, v_done
    from counted c;
  if v_done is not null then
    perform {schema}._outbox_join_wake(v_done);
  end if;
  return coalesce(v_steps, 0);
end
$function$;

-- A hook of the outbox; see queue_hook. Counts the messages in their joins.
create function {schema}._outbox_join_ended(ids uuid[], outcome integer) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_joins uuid[];
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    -- An attach that committed after this transaction's snapshot cannot be seen here.
    insert into {schema}.outbox_join_uncounted (message_id, outcome) select u.id, outcome from unnest(ids) as u(id);
  end if;
  v_joins := array(select distinct m.join_id from {schema}.outbox_join_member m
                    where m.message_id = any (ids) and m.status = 0);
  if v_joins <> '{}' then
    perform {schema}._outbox_join_count(v_joins, ids, outcome);
  end if;
end
$function$;

-- A hook of the outbox; see queue_hook. Locks the joins in which the messages count.
create function {schema}._outbox_join_lock_ends(ids uuid[], wait boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_joins uuid[];
  v_locked uuid[];
begin
  v_joins := array(select distinct m.join_id from {schema}.outbox_join_member m
                    where m.message_id = any (ids) and m.status = 0);
  if v_joins = '{}' then
    return ids;
  elsif wait then
    perform from {schema}.outbox_join j where j.join_id = any (v_joins) order by j.join_id for no key update;
    return ids;
  end if;
  v_locked := array(select j.join_id from {schema}.outbox_join j
                     where j.join_id = any (v_joins) for no key update skip locked);
  return array(select u.id from unnest(ids) as u(id)
                where not exists (select from {schema}.outbox_join_member m
                                   where m.message_id = u.id and m.status = 0 and m.join_id <> all (v_locked)));
end
$function$;

do $block$
begin
  perform {schema}._queue_add_hook('outbox', 'outbox_join', 'outbox_join_member');
end
$block$;

-- Creates a join that waits for expected_steps steps; answers its id, and whether it was created.
-- With an id of yours that exists already, it changes nothing.
create function {schema}.outbox_join_try_start(
  expected_steps integer,
  grouping_key   text        default null,
  metadata       text        default null,
  deadline       timestamptz default null,
  join_id        uuid        default null,
  out id         uuid,
  out created    boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  if expected_steps is null or expected_steps < 1 then
    raise exception 'expected_steps must be at least 1' using errcode = 'invalid_parameter_value';
  elsif char_length(grouping_key) > 255 then
    raise exception 'grouping_key must not exceed 255 characters' using errcode = 'invalid_parameter_value';
  elsif not isfinite(deadline) then
    raise exception 'deadline must be finite' using errcode = 'invalid_parameter_value';
  end if;
  id := coalesce(outbox_join_try_start.join_id, {schema}.uuid_v7());
  insert into {schema}.outbox_join (join_id, grouping_key, expected_steps, metadata, deadline, created_at, last_updated_at)
  values (id, nullif(outbox_join_try_start.grouping_key, ''), outbox_join_try_start.expected_steps,
          outbox_join_try_start.metadata, outbox_join_try_start.deadline, v_now, v_now)
  on conflict do nothing;
  created := found;
end
$function$;
comment on function {schema}.outbox_join_try_start is
  'Creates a join; returns its id and whether it was created.';

-- The same, for callers who need only the id.
create function {schema}.outbox_join_start(
  expected_steps integer,
  grouping_key   text        default null,
  metadata       text        default null,
  deadline       timestamptz default null,
  join_id        uuid        default null
) returns uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return (select s.id from {schema}.outbox_join_try_start(expected_steps, grouping_key, metadata, deadline, join_id) s);
end
$function$;
comment on function {schema}.outbox_join_start is
  'Starts a join that expects a number of steps; returns its id.';

-- Makes messages steps of joins, pair by pair; what is a step already stays one. A message that has ended already is
-- counted at once. Answers the first join that does not exist (then nothing is attached), how many pairs were new, and the
-- first message that is not stored: not yet, or not any more. known_only: then nothing is attached either.
create function {schema}.outbox_join_try_attach(
  joins        uuid[],
  messages     uuid[],
  known_only   boolean default false,
  out missing  uuid,
  out attached integer,
  out unknown  uuid
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_joins uuid[] := array(select distinct u.id from unnest(joins) as u(id));
  v_live uuid[] := '{}';
  v_done uuid[] := '{}';
  v_failed uuid[] := '{}';
begin
  if cardinality(joins) is distinct from cardinality(messages) then
    raise exception 'joins and messages must have the same length' using errcode = 'invalid_parameter_value';
  elsif array_position(messages, null) is not null or '00000000-0000-0000-0000-000000000000' = any (messages) then
    raise exception 'a message must not be null or the nil UUID' using errcode = 'invalid_parameter_value';
  end if;
  attached := 0;
  select u.id into missing from unnest(v_joins) as u(id)
   where not exists (select from {schema}.outbox_join j where j.join_id = u.id) limit 1;
  if found then
    missing := coalesce(missing, '00000000-0000-0000-0000-000000000000');
    return;
  end if;
  -- Whoever ends one of them now waits for us. What has ended is in the archive, unless it is replayed at this moment: then
  -- it is in the queue again.
  for try in 1 .. 3 loop
    v_live := array(select o.id from {schema}.outbox o where o.id = any (messages) order by o.id for key share);
    v_done := array(select a.id from {schema}.outbox_archive a where a.id = any (messages) and a.status = 2);
    v_failed := array(select a.id from {schema}.outbox_archive a where a.id = any (messages) and a.status = 3);
    select u.id into unknown
      from (select unnest(messages) except select unnest(v_live || v_done || v_failed)) as u(id) limit 1;
    exit when not found;
  end loop;
  if known_only and unknown is not null then
    return;
  end if;
  insert into {schema}.outbox_join_member (join_id, message_id)
  select distinct u.join_id, u.message_id from unnest(joins, messages) as u(join_id, message_id)
   order by u.join_id, u.message_id
  on conflict do nothing;
  get diagnostics attached = row_count;
  if v_done <> '{}' or v_failed <> '{}' then
    perform from {schema}.outbox_join j where j.join_id = any (v_joins) order by j.join_id for no key update;
    perform {schema}._outbox_join_count(v_joins, v_done, 1);
    perform {schema}._outbox_join_count(v_joins, v_failed, 2);
  end if;
end
$function$;
comment on function {schema}.outbox_join_try_attach is
  'Makes messages steps of joins, and tells which joins or messages do not exist.';

-- The same for one pair, with an error for a join that does not exist; answers whether the pair is new. A message that is
-- not stored is attached, and counts when it comes: where done messages are not kept, attach before they can be done.
create function {schema}.outbox_join_attach(join_id uuid, message_id uuid) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_missing uuid;
  v_attached integer;
begin
  select t.missing, t.attached into v_missing, v_attached
    from {schema}.outbox_join_try_attach(array[join_id], array[message_id]) t;
  if v_missing is not null then
    raise exception 'join % does not exist', join_id using errcode = 'foreign_key_violation';
  end if;
  return v_attached = 1;
end
$function$;
comment on function {schema}.outbox_join_attach is
  'Makes a message a step of a join; returns false when it was one before.';

-- Reports that a step ended, without its message: status 1 is completed, 2 failed. The first report of a step counts,
-- whoever makes it. Answers whether this one did; null when the message is no step of the join, or there is no such join.
create function {schema}.outbox_join_report(join_id uuid, message_id uuid, status integer) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  if status is null or status not in (1, 2) then
    raise exception 'status must be 1 (completed) or 2 (failed)' using errcode = 'invalid_parameter_value';
  elsif not exists (select from {schema}.outbox_join_member m
                     where m.join_id = outbox_join_report.join_id and m.message_id = outbox_join_report.message_id) then
    return null;
  end if;
  return {schema}._outbox_join_count(array[join_id], array[message_id], status) > 0;
end
$function$;
comment on function {schema}.outbox_join_report is
  'Reports the end of a step: 1 completed, 2 failed. Returns whether it was the first.';

-- Ends a pending join without a continuation; answers whether it was pending, null when there is none. Steps that end later
-- are marked, and change nothing.
create function {schema}.outbox_join_cancel(join_id uuid) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  update {schema}.outbox_join j
     set status = 3, finished_at = {schema}.clock(), last_updated_at = {schema}.clock()
   where j.join_id = outbox_join_cancel.join_id and j.status = 0;
  if found then
    perform {schema}._outbox_join_wake(array[join_id]);
    return true;
  end if;
  return (select false from {schema}.outbox_join j where j.join_id = outbox_join_cancel.join_id);
end
$function$;
comment on function {schema}.outbox_join_cancel is
  'Cancels a pending join: nothing follows it.';

-- Fails pending joins whose deadline has passed, up to `most`; answers how many.
create function {schema}.outbox_join_fail_overdue(most integer default 1000) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_joins uuid[] := array(
    select j.join_id from {schema}.outbox_join j
     where j.finished_at is null and j.deadline is not null and j.deadline <= (select {schema}.clock())
     order by j.deadline limit most for no key update skip locked);
begin
  if v_joins <> '{}' then
    update {schema}.outbox_join j
       set status = 2, reason = 'its deadline passed', finished_at = {schema}.clock(), last_updated_at = {schema}.clock(),
           unlogged = not exists (select from {schema}.outbox_join_waiter w where w.join_id = j.join_id)
     where j.join_id = any (v_joins);
    perform {schema}._outbox_join_wake(v_joins);
  end if;
  return cardinality(v_joins);
end
$function$;
comment on function {schema}.outbox_join_fail_overdue is
  'Fails pending joins whose deadline has passed; returns how many.';

-- Notes that a message waits for a join: the join's end makes it ready, and the join is kept until it was handled.
create function {schema}.outbox_join_await(join_id uuid, message_id uuid) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
begin
  insert into {schema}.outbox_join_waiter (join_id, message_id)
  values (outbox_join_await.join_id, outbox_join_await.message_id) on conflict do nothing;
end
$function$;
comment on function {schema}.outbox_join_await is
  'Notes that a message waits for the end of a join, which then makes it ready.';

-- For the message that waits for a join, inside the transaction that handles it: answers the join, locked, so that it cannot
-- end before that transaction does; none when there is no such join. While it is pending, the message is noted as waiting.
--
-- The message is locked first, then its join together with those that the message itself is a step of, which its ack will
-- count: the order of locks is everybody's. It waits for a lock only so long: what waits can look again.
create function {schema}.outbox_join_wait(join_id uuid, message_id uuid) returns setof {schema}.outbox_join
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
  set lock_timeout = '2s'
as $function$
#variable_conflict use_column
declare
  v_join {schema}.outbox_join;
  v_touched uuid[];
  v_done uuid[];
  v_failed uuid[];
begin
  perform from {schema}.outbox o where o.id = outbox_join_wait.message_id for update;
  v_touched := array(select m.join_id from {schema}.outbox_join_member m
                      where m.message_id = outbox_join_wait.message_id and m.status = 0);
  perform from {schema}.outbox_join j
    where j.join_id = any (v_touched || outbox_join_wait.join_id) order by j.join_id for no key update;
  select j.* into v_join from {schema}.outbox_join j where j.join_id = outbox_join_wait.join_id;
  if not found then
    return;
  end if;
  if v_join.status = 0 and v_join.last_updated_at < {schema}.clock() - interval '5 seconds' then
    -- Nothing has been counted for a while: perhaps an end has slipped through.
    v_done := array(select a.id from {schema}.outbox_archive a
                     where a.status = 2 and a.id = any (array(select m.message_id from {schema}.outbox_join_member m
                             where m.join_id = outbox_join_wait.join_id and m.status = 0)));
    v_failed := array(select a.id from {schema}.outbox_archive a
                       where a.status = 3 and a.id = any (array(select m.message_id from {schema}.outbox_join_member m
                               where m.join_id = outbox_join_wait.join_id and m.status = 0)));
    if v_done <> '{}' or v_failed <> '{}' then
      perform {schema}._outbox_join_count(array[outbox_join_wait.join_id], v_done, 1);
      perform {schema}._outbox_join_count(array[outbox_join_wait.join_id], v_failed, 2);
      select j.* into v_join from {schema}.outbox_join j where j.join_id = outbox_join_wait.join_id;
    end if;
  end if;
  if v_join.status = 0 and v_join.deadline <= {schema}.clock() then
    update {schema}.outbox_join j
       set status = 2, reason = 'its deadline passed', finished_at = {schema}.clock(), last_updated_at = {schema}.clock()
     where j.join_id = outbox_join_wait.join_id
    returning j.* into v_join;
    perform {schema}._outbox_join_wake(array[outbox_join_wait.join_id]);
  end if;
  if v_join.status = 0 then
    -- Leases that were lost before this look do not count against the message: waiting is never
    -- given up.
    update {schema}.outbox o set attempts = 0, lost_leases = 0
     where o.id = outbox_join_wait.message_id and (o.attempts > 0 or o.lost_leases > 0);
    perform {schema}.outbox_join_await(join_id, message_id);
  else
    delete from {schema}.outbox_join_waiter w
     where w.join_id = outbox_join_wait.join_id and w.message_id = outbox_join_wait.message_id;
  end if;
  return next v_join;
end
$function$;
comment on function {schema}.outbox_join_wait is
  'For the handler of messages that wait for a join: its state, and when to look again.';

-- Deletes joins that ended before `finished_before`, with their members, oldest first: up to `most` joins, and no more at
-- once than have some ten thousand steps together. Answers how many. Those whose waiting message is still to be handled
-- stay.
create function {schema}.outbox_join_purge(finished_before timestamptz, most integer default 1000) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
declare
  v_joins uuid[] := array(
    select chosen.join_id
      from (select old.join_id, row_number() over by_age as place, sum(old.expected_steps) over by_age as steps
              from (select j.join_id, j.finished_at, j.expected_steps from {schema}.outbox_join j
                     where j.finished_at < outbox_join_purge.finished_before
                       and not exists (select from {schema}.outbox_join_waiter w
                                         join {schema}.outbox o on o.id = w.message_id where w.join_id = j.join_id)
                     order by j.finished_at limit most for update skip locked) old
            window by_age as (order by old.finished_at, old.join_id)) chosen
     where chosen.place = 1 or chosen.steps <= 10000);
begin
  delete from {schema}.outbox_join j where j.join_id = any (v_joins);
  return cardinality(v_joins);
end
$function$;
comment on function {schema}.outbox_join_purge is
  'Deletes joins that ended before a time and for which no message waits; returns how many.';

-- Counts the steps that ended in transactions with an old snapshot; see _outbox_join_ended. Steps
-- of joins that somebody else has locked are left for the next call. For outbox_join_catch_up, not
-- for callers.
create function {schema}._outbox_join_count_late(most integer) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_ids uuid[] := array(select u.message_id from {schema}.outbox_join_uncounted u limit most for update skip locked);
  v_done uuid[];
  v_failed uuid[];
begin
  if v_ids = '{}' then
    return 0;
  end if;
  v_ids := {schema}._outbox_join_lock_ends(v_ids, false);
  with taken as (
    delete from {schema}.outbox_join_uncounted u where u.message_id = any (v_ids) returning u.message_id, u.outcome
  )
  select array_agg(t.message_id) filter (where t.outcome = 1), array_agg(t.message_id) filter (where t.outcome = 2)
    into v_done, v_failed
    from taken t;
  if v_done is not null then
    perform {schema}._outbox_join_ended(v_done, 1);
  end if;
  if v_failed is not null then
    perform {schema}._outbox_join_ended(v_failed, 2);
  end if;
  return cardinality(v_ids);
end
$function$;

-- Does what transactions had to leave undone: counts the steps that ended in transactions with an
-- old snapshot, and makes the waiting messages ready that somebody else had locked when their join
-- ended. Handles up to `most` of each; answers how many. With nothing to do it is two looks at
-- empty indexes. Call it at READ COMMITTED.
create function {schema}.outbox_join_catch_up(most integer default 1000) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_bitmapscan = off
as $function$
declare
  v_count integer := {schema}._outbox_join_count_late(most);
  v_waiting uuid[] := array(select w.message_id from {schema}.outbox_join_waiter w where w.missed limit most);
  v_rows tid[];
begin
  if v_waiting = '{}' then
    return v_count;
  end if;
  v_rows := array(select o.ctid from {schema}.outbox o
                   where o.id = any (v_waiting) and o.lease_until is null and o.ready_at > {schema}.clock()
                   order by o.id for no key update skip locked);
  if v_rows <> '{}' then
    update {schema}.outbox o set ready_at = {schema}.clock() where o.ctid = any (v_rows);
    perform {schema}._wake();
  end if;
  -- A message that is still locked stays for the next call.
  update {schema}.outbox_join_waiter w set missed = false
   where w.ctid = any (array(
           select m.ctid from {schema}.outbox_join_waiter m
            where m.missed and m.message_id = any (v_waiting)
              and not exists (select from {schema}.outbox o
                               where o.id = m.message_id and o.lease_until is null and o.ready_at > {schema}.clock())
              for update skip locked));
  return v_count + cardinality(v_rows);
end
$function$;
comment on function {schema}.outbox_join_catch_up is
  'Counts steps and wakes waiting messages that transactions had to leave undone; returns how many.';

-- Joins that ended while no message waited for them, up to `most`. Each is answered once: for
-- whoever logs them.
create function {schema}._outbox_join_take_unlogged(most integer default 1000) returns setof {schema}.outbox_join
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_bitmapscan = off
as $function$
begin
  return query
  update {schema}.outbox_join j set unlogged = false
   where j.ctid = any (array(select u.ctid from {schema}.outbox_join u where u.unlogged
                              limit most for no key update skip locked))
  returning j.*;
end
$function$;
