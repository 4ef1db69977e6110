-- The ends of joins, and the messages that wait for them.

-- Cancels a pending join; no continuation follows. Returns whether it was pending, or null if the
-- join does not exist. Steps that end later are marked, but change nothing else.
create function {schema}.outbox_join_cancel(join_id uuid) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
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

-- Fails up to `most` pending joins whose deadline has passed, and returns their number.
create function {schema}.outbox_join_fail_overdue(most integer default 1000) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_joins uuid[] := array(
    select j.join_id from {schema}.outbox_join j
     where j.finished_at is null and j.deadline is not null
       and j.deadline <= (select {schema}.clock())
     order by j.deadline limit most for no key update skip locked);
begin
  if v_joins <> '{}' then
    update {schema}.outbox_join j
       set status = 2, reason = 'the deadline passed', finished_at = {schema}.clock(),
           last_updated_at = {schema}.clock(),
           unlogged = not exists (select from {schema}.outbox_join_waiter w
                                   where w.join_id = j.join_id)
     where j.join_id = any (v_joins);
    perform {schema}._outbox_join_wake(v_joins);
  end if;
  return cardinality(v_joins);
end
$function$;
comment on function {schema}.outbox_join_fail_overdue is
  'Fails pending joins whose deadline has passed; returns how many.';

-- Records that a message waits for a join. The end of the join makes the message ready. The join is
-- kept until the message has been handled.
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

-- For the handler of a message that waits for a join. Call it in the transaction of the handler.
-- Returns the join, or no row if it does not exist. The join stays locked, so it cannot end before
-- the transaction does. If the join is pending, the message is recorded as waiting.
--
-- The function locks the message first, then the join together with the joins in which the ack of
-- the message will count. This is the same order of locks as everywhere. The wait for a lock is
-- short: it holds a thread of the worker, and the handler can check again later.
create function {schema}.outbox_join_wait(join_id uuid, message_id uuid)
  returns setof {schema}.outbox_join
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set lock_timeout = '50ms'
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
    where j.join_id = any (v_touched || outbox_join_wait.join_id)
    order by j.join_id for no key update;
  select j.* into v_join from {schema}.outbox_join j where j.join_id = outbox_join_wait.join_id;
  if not found then
    return;
  end if;
  if v_join.status = 0 and v_join.last_updated_at < {schema}.clock() - interval '5 seconds' then
    -- Nothing has been counted for a while. A step may have ended unseen; look into the archive.
    v_done := array(select a.id from {schema}.outbox_archive a
                     where a.status = 2
                       and a.id = any (array(select m.message_id from {schema}.outbox_join_member m
                             where m.join_id = outbox_join_wait.join_id and m.status = 0)));
    v_failed := array(select a.id from {schema}.outbox_archive a
                       where a.status = 3
                         and a.id = any (array(select m.message_id
                                                 from {schema}.outbox_join_member m
                               where m.join_id = outbox_join_wait.join_id and m.status = 0)));
    if v_done <> '{}' or v_failed <> '{}' then
      perform {schema}._outbox_join_count(array[outbox_join_wait.join_id], v_done, 1);
      perform {schema}._outbox_join_count(array[outbox_join_wait.join_id], v_failed, 2);
      select j.* into v_join from {schema}.outbox_join j where j.join_id = outbox_join_wait.join_id;
    end if;
  end if;
  if v_join.status = 0 and v_join.deadline <= {schema}.clock() then
    update {schema}.outbox_join j
       set status = 2, reason = 'the deadline passed', finished_at = {schema}.clock(),
           last_updated_at = {schema}.clock()
     where j.join_id = outbox_join_wait.join_id
    returning j.* into v_join;
    perform {schema}._outbox_join_wake(array[outbox_join_wait.join_id]);
  end if;
  if v_join.status = 0 then
    -- Leases that expired before this check do not count against the message. A message may wait
    -- for a join for any time.
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

-- Deletes joins that ended before `finished_before`, with their members, oldest first. Returns
-- their number. One call deletes up to `most` joins and up to about ten thousand steps. Joins whose
-- waiting message has not been handled yet are kept.
create function {schema}.outbox_join_purge(finished_before timestamptz, most integer default 1000)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
declare
  v_joins uuid[] := array(
    select chosen.join_id
      from (select old.join_id, row_number() over by_age as place,
                   sum(old.expected_steps) over by_age as steps
              from (select j.join_id, j.finished_at, j.expected_steps from {schema}.outbox_join j
                     where j.finished_at < outbox_join_purge.finished_before
                       and not exists (select from {schema}.outbox_join_waiter w
                                         join {schema}.outbox o on o.id = w.message_id
                                        where w.join_id = j.join_id)
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

-- Internal. Counts the steps that ended in transactions with an old snapshot; see
-- _outbox_join_ended. Steps of joins that another transaction has locked are left for the next
-- call.
create function {schema}._outbox_join_count_late(most integer) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_ids uuid[] := array(select u.message_id
                          from {schema}.outbox_join_uncounted u limit most for update skip locked);
  v_done uuid[];
  v_failed uuid[];
begin
  if v_ids = '{}' then
    return 0;
  end if;
  v_ids := {schema}._outbox_join_lock_ends(v_ids, false);
  with taken as (
    delete from {schema}.outbox_join_uncounted u
      where u.message_id = any (v_ids) returning u.message_id, u.outcome
  )
  select array_agg(t.message_id) filter (where t.outcome = 1),
         array_agg(t.message_id) filter (where t.outcome = 2)
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

-- Finishes work that other transactions had to leave. It counts the steps that ended in
-- transactions with an old snapshot, and makes the waiting messages ready that were locked when
-- their join ended. It handles up to `most` of each, and returns their number. Without such work it
-- reads two empty indexes. Call it at READ COMMITTED.
create function {schema}.outbox_join_catch_up(most integer default 1000) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_bitmapscan = off
as $function$
declare
  v_count integer := {schema}._outbox_join_count_late(most);
  v_waiting uuid[] := array(select w.message_id from {schema}.outbox_join_waiter w
                             where w.missed limit most);
  v_rows tid[];
begin
  if v_waiting = '{}' then
    return v_count;
  end if;
  v_rows := array(select o.ctid from {schema}.outbox o
                   where o.id = any (v_waiting) and o.lease_until is null
                     and o.ready_at > {schema}.clock()
                   order by o.id for no key update skip locked);
  if v_rows <> '{}' then
    update {schema}.outbox o set ready_at = {schema}.clock() where o.ctid = any (v_rows);
    perform {schema}._wake();
  end if;
  -- A message that is still locked is left for the next call.
  update {schema}.outbox_join_waiter w set missed = false
   where w.ctid = any (array(
           select m.ctid from {schema}.outbox_join_waiter m
            where m.missed and m.message_id = any (v_waiting)
              and not exists (select from {schema}.outbox o
                               where o.id = m.message_id and o.lease_until is null
                                 and o.ready_at > {schema}.clock())
              for update skip locked));
  return v_count + cardinality(v_rows);
end
$function$;
comment on function {schema}.outbox_join_catch_up is
  'Counts steps and wakes messages that other transactions had to leave; returns the number.';

-- Internal, for the log. Returns up to `most` joins that ended while no message waited for them.
-- Each join is returned once.
create function {schema}._outbox_join_take_unlogged(most integer default 1000)
  returns setof {schema}.outbox_join
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
