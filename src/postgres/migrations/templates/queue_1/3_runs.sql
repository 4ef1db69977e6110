-- Run leases: one row leases many messages.
--
-- A claim of many messages writes one row of {queue}_run instead of one version of each message. A
-- run belongs to one owner and covers the fresh messages of one lane between two places: those
-- behind (from_at, from_id), up to (to_at, to_id). A message is fresh while its claim_epoch is zero
-- and it has no lease. So a message that was ever given to a worker by itself, or whose run
-- expired, is in no run.
--
--   * A run begins and ends where all messages between were claimable when it was opened. Fresh
--     messages that are committed into it later wait until it is closed.
--   * Only messages that have been ready for 100 ms are in runs: few are committed so late.
--   * Claims of single messages leave out the runs. To see all of them, they hold the lock of runs
--     in shared mode, and the transaction that opens a run holds it alone.
--   * The claim of a message in a run has the epoch 1: it is the first claim of the message.
--   * Messages of a run are acked where they are (_{queue}_ack_run). For every other settlement,
--     and for a renewal, they first get leases of their own (_{queue}_spread_run).
--   * Each of these changes the row of the message, and each finds it only while it is fresh. So
--     two of them never take effect for the same claim, and none of them locks the row of the run.

-- Internal. The lock of runs: alone to open one, shared to claim single messages. To open a run, a
-- worker waits for 5 ms at most, because a transaction that has claimed messages may stay open.
create function {schema}._{queue}_lock_runs() returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  for try in 1 .. 5 loop
    if pg_try_advisory_xact_lock(hashtextextended('dovetail {schema}.{queue}_run', 0)) then
      return true;
    end if;
    perform pg_sleep(0.001);
  end loop;
  return false;
end
$function$;

-- Internal. Ends the runs whose leases have expired, and returns the number of their messages. Each
-- is charged one attempt.
create function {schema}._{queue}_reap_runs() returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_run record;
  v_rows tid[];
  v_count integer := 0;
begin
  for v_run in select r.ctid, r.* from {schema}.{queue}_run r
                where r.lease_until <= {schema}.clock() for update skip locked loop
    v_rows := array(
      select o.ctid from {schema}.{queue} o
       where o.lane = v_run.lane and (o.ready_at, o.id) > (v_run.from_at, v_run.from_id)
         and (o.ready_at, o.id) <= (v_run.to_at, v_run.to_id)
         and o.claim_epoch = 0 and o.lease_until is null
         for no key update skip locked);
    update {schema}.{queue} o
       set attempts = o.attempts + 1, lost_leases = o.lost_leases + 1, claim_epoch = 1,
           failures = {schema}._queue_failed(o.failures, o.past_attempts + o.attempts + 1,
                                             'lost_lease', null, v_run.owner_token)
     where o.ctid = any (v_rows);
    delete from {schema}.{queue}_run r where r.ctid = v_run.ctid;
    v_count := v_count + cardinality(v_rows);
  end loop;
  return v_count;
end
$function$;

-- Internal, for _{queue}_open_run. Returns where a run ends that begins behind (from_at, from_id):
-- before the first message that it must not contain, and before max_bytes. size: the number of its
-- messages.
create function {schema}._{queue}_run_end(
  in_lane integer, from_at timestamptz, from_id uuid, until timestamptz, batch_size integer,
  topics text[], except_topics text[], max_bytes bigint,
  out to_at timestamptz, out to_id uuid, out size integer
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_paused text[] := array(select p.topic from {schema}.{queue}_paused p);
  v_fits boolean;
begin
  select count(*), bool_and(m.fits) and sum(m.bytes) <= max_bytes into size, v_fits
    from (select o.claim_epoch = 0 and o.lease_until is null
                 and (o.expires_at is null or o.expires_at > v_now)
                 and o.topic <> all (v_paused)
                 and (topics is null or o.topic = any (topics))
                 and (except_topics is null or o.topic <> all (except_topics)) as fits,
                 octet_length(o.payload) as bytes
            from {schema}.{queue} o
           where o.lane = in_lane and (o.ready_at, o.id) > (_{queue}_run_end.from_at, from_id)
             and o.ready_at <= until
           order by o.ready_at, o.id limit batch_size) m;
  if size > 0 and v_fits is not true then
    -- The usual case needs no second look. Here the run ends before the first message that does not
    -- fit.
    size := (
      select count(*) from (
        select bool_and(m.fits) over w and sum(m.bytes) over w <= max_bytes as fits
          from (select o.ready_at, o.id,
                       o.claim_epoch = 0 and o.lease_until is null
                       and (o.expires_at is null or o.expires_at > v_now)
                       and o.topic <> all (v_paused)
                       and (topics is null or o.topic = any (topics))
                       and (except_topics is null or o.topic <> all (except_topics)) as fits,
                       octet_length(o.payload) as bytes
                  from {schema}.{queue} o
                 where o.lane = in_lane
                   and (o.ready_at, o.id) > (_{queue}_run_end.from_at, from_id)
                   and o.ready_at <= until
                 order by o.ready_at, o.id limit batch_size) m
        window w as (order by m.ready_at, m.id rows unbounded preceding)) f
       where f.fits);
  end if;
  if size > 0 then
    select o.ready_at, o.id into to_at, to_id from {schema}.{queue} o
     where o.lane = in_lane and (o.ready_at, o.id) > (_{queue}_run_end.from_at, from_id)
       and o.ready_at <= until
     order by o.ready_at, o.id offset size - 1 limit 1;
  end if;
end
$function$;

-- Internal. Opens the run `run` of this owner: up to batch_size messages of the highest lane that
-- has a message, and at_least of them. Returns their number, or zero if there is no such run; then
-- claim single messages. Call it in a transaction of its own, and read the messages in the next
-- one: then the lock of runs is held for a moment only. The transaction does not wait for its
-- commit to be durable. If a crash of the server undoes it, the run has never existed: its owner
-- cannot settle the messages, and they are claimed again.
--
-- min_age: only messages that have been ready for so long. The other arguments: as for
-- {queue}_claim.
create function {schema}._{queue}_open_run(
  owner_token uuid, run bigint, batch_size integer, lease interval, after timestamptz[],
  after_ids uuid[], topics text[], except_topics text[], max_bytes bigint, at_least integer,
  min_age interval
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_from_at timestamptz;
  v_from_id uuid;
  v_last record;
  v_first record;
  v_end record;
begin
  perform set_config('synchronous_commit', 'off', true);
  if not {schema}._{queue}_lock_runs() then
    return 0;
  end if;
  v_now := {schema}.clock();
  if exists (select from {schema}.{queue}_run r where r.lease_until <= v_now) then
    perform {schema}._{queue}_reap_runs();
  end if;
  for v_lane in reverse 5 .. -5 loop
    v_from_at := coalesce(after[v_lane + 6], '-infinity');
    v_from_id := coalesce(after_ids[v_lane + 6], '00000000-0000-0000-0000-000000000000');
    select r.to_at, r.to_id into v_last from {schema}.{queue}_run r
     where r.lane = v_lane order by r.to_at desc, r.to_id desc limit 1;
    if (v_last.to_at, v_last.to_id) > (v_from_at, v_from_id) then
      v_from_at := v_last.to_at;
      v_from_id := v_last.to_id;
    end if;
    -- The run begins at the first message that has no lease.
    select o.ready_at, o.id into v_first from {schema}.{queue} o
     where o.lane = v_lane and (o.ready_at, o.id) > (v_from_at, v_from_id) and o.ready_at <= v_now
       and (o.lease_until is null or o.lease_until <= v_now)
     order by o.ready_at, o.id limit 1;
    continue when not found;
    select o.ready_at, o.id into v_last from {schema}.{queue} o
     where o.lane = v_lane and (o.ready_at, o.id) > (v_from_at, v_from_id)
       and (o.ready_at, o.id) < (v_first.ready_at, v_first.id)
     order by o.ready_at desc, o.id desc limit 1;
    if found then
      v_from_at := v_last.ready_at;
      v_from_id := v_last.id;
    end if;
    v_end := {schema}._{queue}_run_end(v_lane, v_from_at, v_from_id, v_now - min_age, batch_size,
                                       topics, except_topics, max_bytes);
    if v_end.size < at_least then
      return 0;
    end if;
    insert into {schema}.{queue}_run (run, lease_until, from_at, to_at, lane, owner_token,
                                      from_id, to_id)
    values (_{queue}_open_run.run, v_now + lease, v_from_at, v_end.to_at, v_lane,
            _{queue}_open_run.owner_token, v_from_id, v_end.to_id);
    return v_end.size;
  end loop;
  return 0;
end
$function$;

-- Internal. Closes runs whose messages are all settled, or have leases of their own. Returns their
-- number. Messages that are left become claimable.
create function {schema}._{queue}_close_runs(owner_token uuid, runs bigint[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_count integer;
begin
  delete from {schema}.{queue}_run r
   where r.owner_token = _{queue}_close_runs.owner_token and r.run = any (runs);
  get diagnostics v_count = row_count;
  return v_count;
end
$function$;

-- Internal. Gives messages of a run leases of their own, and returns their number. wait: false
-- skips messages that another transaction has locked.
create function {schema}._{queue}_spread_run(owner_token uuid, run bigint, ids uuid[],
                                             wait boolean default true) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_run {schema}.{queue}_run;
  v_rows tid[];
begin
  select r.* into v_run from {schema}.{queue}_run r
   where r.owner_token = _{queue}_spread_run.owner_token and r.run = _{queue}_spread_run.run
     and r.lease_until > {schema}.clock();
  if not found then
    return 0;
  elsif wait then
    v_rows := array(select o.ctid from {schema}.{queue} o
                     where o.id = any (ids) and o.claim_epoch = 0 and o.lease_until is null
                       and o.lane = v_run.lane
                       and (o.ready_at, o.id) > (v_run.from_at, v_run.from_id)
                       and (o.ready_at, o.id) <= (v_run.to_at, v_run.to_id)
                     order by o.id for no key update);
  else
    v_rows := array(select o.ctid from {schema}.{queue} o
                     where o.id = any (ids) and o.claim_epoch = 0 and o.lease_until is null
                       and o.lane = v_run.lane
                       and (o.ready_at, o.id) > (v_run.from_at, v_run.from_id)
                       and (o.ready_at, o.id) <= (v_run.to_at, v_run.to_id)
                     order by o.id for no key update skip locked);
  end if;
  update {schema}.{queue} o
     set owner_token = v_run.owner_token, claim_epoch = 1, lease_until = v_run.lease_until
   where o.ctid = any (v_rows);
  return cardinality(v_rows);
end
$function$;

-- Internal, for _{queue}_ack_run. Removes messages of a run at the given places, in the order of
-- the arrays. The settings leave one way to read the table: by the places in the array.
create function {schema}._{queue}_ack_run_rows(of_run {schema}.{queue}_run, ids uuid[], rows tid[],
                                               keep boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_indexscan = off set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_ids uuid[];
begin
  if keep then
    with gone as (
      delete from {schema}.{queue} o using unnest(ids, rows) as u(id, row)
       where o.ctid = u.row and o.id = u.id and o.claim_epoch = 0 and o.lease_until is null
         and o.lane = of_run.lane and (o.ready_at, o.id) > (of_run.from_at, of_run.from_id)
         and (o.ready_at, o.id) <= (of_run.to_at, of_run.to_id)
      returning o.*
    ),
    kept as (
      insert into {schema}.{queue}_archive (
               processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts,
               status, priority, id, processed_by, topic, correlation_id, unique_key, headers,
               last_error, failures, payload, stages)
      select {schema}.clock(), g.created_at, 1, g.due_at, g.expires_at, g.attempts,
             g.past_attempts, 2, g.priority, g.id, of_run.owner_token, g.topic, g.correlation_id,
             g.unique_key, g.headers, g.last_error, g.failures, g.payload, g.stages
        from gone g
    )
    select array_agg(g.id) into v_ids from gone g;
  else
    with gone as (
      delete from {schema}.{queue} o using unnest(ids, rows) as u(id, row)
       where o.ctid = u.row and o.id = u.id and o.claim_epoch = 0 and o.lease_until is null
         and o.lane = of_run.lane and (o.ready_at, o.id) > (of_run.from_at, of_run.from_id)
         and (o.ready_at, o.id) <= (of_run.to_at, of_run.to_id)
      returning o.id
    )
    select array_agg(g.id) into v_ids from gone g;
  end if;
  return v_ids;
end
$function$;

-- Internal. Marks messages of a run as done, and returns their number. rows: their places. If a
-- message has a lease of its own meanwhile, or is in the archive already, all are acked by id.
create function {schema}._{queue}_ack_run(owner_token uuid, run bigint, ids uuid[], rows tid[],
                                          keep boolean) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_run {schema}.{queue}_run;
  v_ids uuid[];
begin
  begin
    select r.* into v_run from {schema}.{queue}_run r
     where r.owner_token = _{queue}_ack_run.owner_token and r.run = _{queue}_ack_run.run
       and r.lease_until > {schema}.clock();
    if found then
      v_ids := {schema}._{queue}_ack_run_rows(v_run, ids, rows, keep);
    end if;
    if coalesce(cardinality(v_ids), 0) < cardinality(ids) then
      raise sqlstate 'DVT01';
    end if;
  exception when unique_violation or sqlstate 'DVT01' then
    perform {schema}._{queue}_spread_run(owner_token, run, ids);
    return {schema}._{queue}_ack_by_id(owner_token, ids,
                                       array_fill(1::bigint, array[cardinality(ids)]), keep);
  end;
  return {schema}._{queue}_acked(v_ids, v_run.lease_until);
end
$function$;
