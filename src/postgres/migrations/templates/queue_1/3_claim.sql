-- Claiming messages.

-- Internal. Moves rows that the caller has locked into the archive, and returns their number.
-- charge: 1 counts an attempt; without processed_by, its lease was lost. Without a charge, only the
-- expiry of a message is added to its failures: they have the attempt already.
create function {schema}._{queue}_finish(locked tid[], status smallint, error text,
                                         processed_by uuid, charge integer)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_ids uuid[];
  v_streams text[];
begin
  with gone as (
    delete from {schema}.{queue} o where o.ctid = any (locked)
    returning o.*
  ),
  kept as (
    insert into {schema}.{queue}_archive (
             processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts,
             status, priority, id, processed_by, topic, correlation_id, unique_key, stream,
             headers, last_error, failures, payload, stages)
    select {schema}.clock(), g.created_at, g.claim_epoch, g.due_at, g.expires_at,
           g.attempts + charge, g.past_attempts, _{queue}_finish.status, g.priority, g.id,
           _{queue}_finish.processed_by, g.topic, g.correlation_id, g.unique_key, g.stream,
           g.headers,
           coalesce(left(error, 2048), g.last_error),
           {schema}._queue_failed(
             g.failures, g.past_attempts + g.attempts + charge,
             case when _{queue}_finish.status = 2 then null
                  when charge > 0 and _{queue}_finish.processed_by is null then 'lost_lease'
                  when charge > 0 then 'failed'
                  when g.expires_at <= {schema}.clock() then 'expired' end, error,
             case when charge > 0
                  then coalesce(_{queue}_finish.processed_by, g.owner_token) end),
           g.payload, g.stages
      from gone g
    -- The id may be in the archive already, if a transaction with an old snapshot enqueued it
    -- again. The last end counts, and one such message does not fail the others.
    on conflict (id) do update
       set processed_at = excluded.processed_at, claim_epoch = excluded.claim_epoch,
           attempts = excluded.attempts, status = excluded.status,
           processed_by = excluded.processed_by, last_error = excluded.last_error,
           failures = excluded.failures, stages = excluded.stages
    returning id
  )
  select array_agg(k.id), (select array_agg(distinct g.stream::text) from gone g
                            where g.stream is not null)
    into v_ids, v_streams from kept k;
  if v_ids is null then
    return 0;
  end if;
  perform {schema}._{queue}_ended(v_ids, _{queue}_finish.status - 1);
  -- The end of a lease, or of a block, does this for streams that are leased or blocked.
  v_streams := array(select u.stream from unnest(v_streams) as u(stream)
                      where not exists (select from {schema}.{queue}_stream s
                                         where s.stream = u.stream
                                           and (s.owner_token is not null
                                                or s.blocked_at is not null)));
  if v_streams <> '{}' then
    perform {schema}._{queue}_ticket(v_streams);
    delete from {schema}.{queue}_stream s
     where s.stream = any (v_streams)
       and not exists (select from {schema}.{queue} o where o.stream = s.stream);
  end if;
  return cardinality(v_ids);
end
$function$;

-- Internal, for {queue}_claim. Removes rows from the claim that must not be handed out. Expired
-- messages fail. Messages whose last allowed attempt ended with an expired lease fail. Messages of
-- paused topics move to the lane -100. Returns the number of these rows. A message that waits for a
-- join never fails for lost leases: a claim with a higher limit takes it.
--
-- The claim has locked the rows. A message whose join is locked, or which another transaction
-- attaches to a join, is left for a later claim: a claim never waits.
create function {schema}._{queue}_set_aside(locked tid[], at timestamptz, max_attempts integer,
                                            paused text[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_ids uuid[];
  v_rows tid[];
  v_count integer := 0;
  v_parked integer;
begin
  v_ids := array(select o.id from {schema}.{queue} o
                  where o.ctid = any (locked)
                    and (o.expires_at <= at
                         or ((o.lease_until <= at or o.lost_leases > 0)
                             and o.attempts + (o.lease_until is not null)::integer >= max_attempts))
                    for update skip locked);
  if v_ids <> '{}' then
    v_ids := array(select o.id from {schema}.{queue} o
                    where o.id = any (v_ids)
                      and (o.expires_at <= at or o.id <> all ({schema}._{queue}_spared(v_ids))));
    v_ids := {schema}._{queue}_lock_ends(v_ids, false);
    v_rows := array(select o.ctid from {schema}.{queue} o
                     where o.id = any (v_ids) and o.expires_at <= at);
    v_count := {schema}._{queue}_finish(
      v_rows, 3::smallint, 'expired before it was handled', null, 0);
    -- A reaper has charged the messages without a lease. The others are charged here.
    v_rows := array(select o.ctid from {schema}.{queue} o
                     where o.id = any (v_ids) and o.lease_until is null);
    v_count := v_count + {schema}._{queue}_finish(
      v_rows, 3::smallint, 'the lease expired on the last attempt', null, 0);
    v_rows := array(select o.ctid from {schema}.{queue} o where o.id = any (v_ids));
    v_count := v_count + {schema}._{queue}_finish(
      v_rows, 3::smallint, 'the lease expired on the last attempt', null, 1);
  end if;
  update {schema}.{queue} o
     set lane = -100, owner_token = null, lease_until = null,
         attempts = o.attempts + (o.lease_until is not null)::integer,
         lost_leases = least(o.lost_leases + (o.lease_until is not null)::integer, 1000),
         failures = case when o.lease_until is null then o.failures
                         else {schema}._queue_failed(
                                o.failures, o.past_attempts + o.attempts + 1, 'lost_lease', null,
                                o.owner_token) end
   where o.ctid = any (locked) and o.topic = any (paused);
  get diagnostics v_parked = row_count;
  return v_count + v_parked;
end
$function$;

-- Leases up to batch_size messages that are due, or whose lease expired. An expired lease counts as
-- an attempt. A message whose lease expired on attempt max_attempts fails. null: none fails,
-- because the limit belongs to the handler of a topic. The function leases exactly the messages
-- that it returns.
--
-- topics: claim only messages of these topics; null means all topics. except_topics: claim no
-- messages of these topics. Messages of other topics do not change. max_bytes: claim fewer messages
-- if their payloads together exceed it; one message is always claimed.
--
-- The sub-select that locks is a statement of its own and yields an array. If it were joined
-- directly, the planner could run it twice and lock more rows than needed. It visits the lanes from
-- the highest to the lowest. In each lane it walks the index in the order of claims, and stops at
-- the limit. So neither a long queue nor a large archive makes it slower.
--
-- The settings keep the plan on the index, whatever the statistics say. The plan is made once per
-- session. The just-in-time compiler is off: it would take longer than the claim, and so would a
-- new plan. For the same reason these functions are written in plpgsql: SQL functions are planned
-- in every call.
--
-- after, after_ids: for each lane, from -5 to 5, the place where the last claim of this worker
-- began. The claim skips earlier rows, and with them the dead index entries that an old snapshot
-- keeps vacuum from removing. null: from the start.
--
-- only_ids: claim only these messages. Give `after`, too: without it, the claim reads the queue
-- from the start.
--
-- row_at: the place of the claimed row, for {queue}_ack. cut: max_bytes ended the claim.
create function {schema}.{queue}_claim(
  owner_token  uuid,
  batch_size   integer       default 50,
  lease        interval      default interval '30 seconds',
  max_attempts integer       default null,
  after        timestamptz[] default null,
  after_ids    uuid[]        default null,
  topics        text[]       default null,
  except_topics text[]       default null,
  max_bytes     bigint       default 67108864,
  only_ids      uuid[]       default null
) returns table (
  id uuid, topic text, payload text, correlation_id text, headers jsonb, created_at timestamptz,
  due_at timestamptz,
  expires_at timestamptz, priority smallint, attempts integer, claim_epoch bigint,
  lease_until timestamptz,
  ready_at timestamptz, lost_leases smallint, row_at tid, cut boolean, stages smallint
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_paused text[] := array(select p.topic from {schema}.{queue}_paused p
                            order by p.topic for key share skip locked);
  v_runs boolean;
  v_rows tid[];
  v_fit tid[];
  v_left integer := batch_size;
  v_look integer := batch_size;
  v_leased integer;
  v_aside integer;
  v_bytes bigint := 0;
  v_size bigint;
  v_cut boolean := false;
begin
  if {queue}_claim.owner_token is null then
    raise exception 'owner_token must not be null' using errcode = 'invalid_parameter_value';
  elsif batch_size is null or batch_size < 1 then
    raise exception 'batch_size must be at least 1' using errcode = 'invalid_parameter_value';
  elsif lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  elsif max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  elsif max_bytes < 1 then
    raise exception 'max_bytes must be at least 1' using errcode = 'invalid_parameter_value';
  elsif current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'claims need the isolation level READ COMMITTED, this transaction has %',
      upper(current_setting('transaction_isolation'))
      using errcode = 'invalid_transaction_state',
            hint = 'An older snapshot does not show the leases that other workers have just taken.';
  end if;
  perform pg_advisory_xact_lock_shared(hashtextextended('dovetail {schema}.{queue}_run', 0));
  v_runs := exists (select from {schema}.{queue}_run);
  if v_runs and exists (select from {schema}.{queue}_run r where r.lease_until <= v_now) then
    perform {schema}._{queue}_reap_runs();
  end if;
  max_attempts := coalesce({queue}_claim.max_attempts, 2147483647);

  for round in 1 .. 20 loop
    -- The later rounds look at more rows at once, because the first one found rows to skip.
    select array_agg(picked.ctid), sum(picked.size) into v_rows, v_size
      from (select row.ctid, row.size
              from generate_series(5, -5, -1) as lanes(lane)
             cross join lateral (
               select r.ctid, octet_length(r.payload) as size from {schema}.{queue} r
                where r.lane = lanes.lane and r.ready_at <= v_now
                  and (r.ready_at, r.id) >= (coalesce(after[lanes.lane + 6], '-infinity'),
                                             coalesce(after_ids[lanes.lane + 6],
                                                      '00000000-0000-0000-0000-000000000000'))
                  and (r.lease_until is null or r.lease_until <= v_now)
                  and (topics is null or r.topic = any (topics))
                  and (except_topics is null or r.topic <> all (except_topics))
                  and (only_ids is null or r.id = any (only_ids))
                  and (not v_runs or r.claim_epoch <> 0
                       or not exists (select from {schema}.{queue}_run u
                                       where u.lane = r.lane
                                         and (r.ready_at, r.id) > (u.from_at, u.from_id)
                                         and (r.ready_at, r.id) <= (u.to_at, u.to_id)))
                order by r.ready_at, r.id
                limit v_look
                for no key update skip locked) row
             limit v_look) picked;
    exit when v_rows is null;
    v_fit := v_rows;
    if round > 1 then
      v_fit := array(select o.ctid from unnest(v_rows) with ordinality as u(row, place)
                       join {schema}.{queue} o on o.ctid = u.row
                      where (o.expires_at is null or o.expires_at > v_now)
                        and ((o.lease_until is null and o.lost_leases = 0)
                             or o.attempts + (o.lease_until is not null)::integer < max_attempts)
                        and not o.topic = any (v_paused)
                      order by u.place limit v_left);
      v_size := (select sum(octet_length(o.payload)) from {schema}.{queue} o
                  where o.ctid = any (v_fit));
    end if;
    v_cut := v_bytes + v_size > max_bytes;
    if v_cut then
      v_fit := array(select f.row
                       from (select u.row, u.place,
                                    sum(octet_length(o.payload)) over (order by u.place) as total
                               from unnest(v_fit) with ordinality as u(row, place)
                               join {schema}.{queue} o on o.ctid = u.row) f
                      where v_bytes + f.total <= max_bytes or (v_bytes = 0 and f.place = 1));
    end if;

    return query
    update {schema}.{queue} o
       set owner_token = {queue}_claim.owner_token, claim_epoch = o.claim_epoch + 1,
           attempts = o.attempts + (o.lease_until is not null)::integer,
           lost_leases = least(o.lost_leases + (o.lease_until is not null)::integer, 1000),
           failures = case when o.lease_until is null then o.failures
                           else {schema}._queue_failed(
                                  o.failures, o.past_attempts + o.attempts + 1, 'lost_lease', null,
                                  o.owner_token) end,
           lease_until = {schema}.clock() + lease
     where o.ctid = any (v_fit) and (o.expires_at is null or o.expires_at > v_now)
       and ((o.lease_until is null and o.lost_leases = 0)
            or o.attempts + (o.lease_until is not null)::integer < max_attempts)
       and not o.topic = any (v_paused)
    returning o.id, o.topic::text, o.payload, o.correlation_id::text, o.headers::jsonb,
              o.created_at, o.due_at::timestamptz, o.expires_at::timestamptz, o.priority::smallint,
              o.attempts, o.claim_epoch, o.lease_until, o.ready_at, o.lost_leases, o.ctid,
              coalesce(v_cut, false), o.stages;
    get diagnostics v_leased = row_count;
    if v_leased > 0 then
      v_bytes := v_bytes + v_size;
    end if;
    exit when v_leased = cardinality(v_rows) or (v_cut and v_leased > 0);

    v_aside := {schema}._{queue}_set_aside(v_rows, v_now, max_attempts, v_paused);
    v_left := v_left - v_leased;
    exit when v_left = 0 or (v_aside = 0 and cardinality(v_rows) < v_look and v_cut is not true);
    -- If no row was set aside, other transactions hold the rows in front. Look further behind them.
    v_look := case when v_aside > 0 then greatest(v_left, 1000)
                   else least(greatest(v_look * 4, 1000), 100000) end;
    if round = 20 then
      perform {schema}._wake('{queue}');  -- there is more: wake another worker
    end if;
  end loop;
end
$function$;
comment on function {schema}.{queue}_claim is
  'Leases up to batch_size messages that are due to owner_token and returns them.';
