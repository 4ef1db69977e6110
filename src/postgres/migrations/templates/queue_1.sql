-- A queue, its archive, and the functions that are its contract; see the migrations that use it. Once it was released
-- it is not changed any more: what comes after is a migration of its own.

-- The queue. A row is in progress while it has a lease. No index holds a column that a claim or a renewal changes, so that
-- they are HOT updates and write no index at all; half of each page is kept free for the second version of its rows. Columns
-- that are never null come first: behind a null, PostgreSQL has to walk through a row to find the next one.
-- `lane` is the priority, or -100 while the topic is paused: such rows lie where no claim passes by.
create table {schema}.{queue} (
  ready_at       timestamptz not null default {schema}.clock(),   -- not claimed before; the order of claims
  created_at     timestamptz not null default {schema}.clock(),
  claim_epoch    bigint      not null default 0,
  attempts       integer     not null default 0,
  past_attempts  integer     not null default 0,                  -- before the last replay
  lost_leases    smallint    not null default 0,                  -- times its lease ran out since it last ended well
  lane           smallint    not null default 0,
  priority       {schema}.queue_priority not null default 0,
  id             uuid        not null,
  topic          {schema}.queue_name not null,
  lease_until    timestamptz,
  due_at         {schema}.queue_time,
  expires_at     {schema}.queue_time,
  owner_token    uuid,                                            -- of the lease: with it, or null with it
  correlation_id {schema}.queue_name,
  unique_key     {schema}.queue_name,
  headers        {schema}.queue_headers,
  last_error     text,
  payload        text        not null,
  constraint {queue}_pkey primary key (id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

-- The condition, which is always true, keeps statements that look for ids alone from walking this index: without it the
-- planner finds that cheap while the table is nearly empty, and keeps the plan.
create index {queue}_queue on {schema}.{queue} (lane, ready_at, id) where lane is not null;
create unique index {queue}_unique on {schema}.{queue} (unique_key) where unique_key is not null;
create index {queue}_parked on {schema}.{queue} (topic, id) where lane = -100;

-- What is finished: done (2) or failed (3, the dead letters).
create table {schema}.{queue}_archive (
  processed_at   timestamptz not null,
  created_at     timestamptz not null,
  claim_epoch    bigint      not null,
  due_at         timestamptz,
  expires_at     timestamptz,
  attempts       integer     not null,
  past_attempts  integer     not null,
  status         smallint    not null,
  priority       smallint    not null,
  id             uuid        not null,
  processed_by   uuid,
  topic          text        not null,
  correlation_id text,
  unique_key     text,
  headers        jsonb,
  last_error     text,
  payload        text        not null,
  constraint {queue}_archive_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2,
        autovacuum_vacuum_cost_delay = 0);

create index {queue}_archive_done on {schema}.{queue}_archive (processed_at) where status = 2;
create index {queue}_archive_failed on {schema}.{queue}_archive (id) where status = 3;

create table {schema}.{queue}_paused (
  topic     text        not null,
  paused_at timestamptz not null default {schema}.clock(),
  constraint {queue}_paused_pkey primary key (topic)
);

-- Every message that is stored, with the columns of the specification.
create view {schema}.{queue}_messages as
  select id, topic, payload, created_at, (case when lease_until is null then 0 else 1 end)::smallint as status,
         lease_until as locked_until, owner_token, false as is_processed, null::timestamptz as processed_at,
         null::uuid as processed_by, attempts as retry_count, last_error, ready_at as next_attempt_at, id as message_id,
         correlation_id, due_at as due_time_utc, expires_at, priority, unique_key, headers, claim_epoch, past_attempts
    from {schema}.{queue}
  union all
  select id, topic, payload, created_at, status, null, null, status = 2, processed_at, processed_by, attempts, last_error,
         null, id, correlation_id, due_at, expires_at, priority, unique_key, headers, claim_epoch, past_attempts
    from {schema}.{queue}_archive;

-- Deletes a message whose id is in the archive; answers whether it was. It runs with the rights of the schema's owner: a
comment on view {schema}.{queue}_messages is
  'Every message of the queue {queue}: waiting, in progress, done (while history is kept) and failed.';
-- role that may only enqueue cannot delete. For the functions below, not for callers.
create function {schema}._{queue}_drop_known(id uuid) returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  if not exists (select from {schema}.{queue}_archive a where a.id = _{queue}_drop_known.id) then
    return false;
  end if;
  delete from {schema}.{queue} o where o.id = _{queue}_drop_known.id;
  return true;
end
$function$;

-- Stores a message; answers its id and whether it was stored. It is not when its message_id is known already (also of a
-- message that is finished), or when one with its unique_key is not finished yet: then the answer is that one's id.
--
-- delay: instead of due_at, counted from now by the database's clock.
-- notify: wakes waiting workers when the transaction commits, unless another message of the last second waits already
-- (NOTIFY makes commits queue up behind each other: who enqueues thousands a second leaves it out, and workers poll).
create function {schema}.{queue}_try_enqueue(
  topic          text,
  payload        text,
  message_id     uuid        default null,
  correlation_id text        default null,
  due_at         timestamptz default null,
  headers        jsonb       default null,
  expires_at     timestamptz default null,
  priority       integer     default 0,
  unique_key     text        default null,
  notify         boolean     default true,
  delay          interval    default null,
  out id         uuid,
  out stored     boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_id uuid := coalesce(message_id, {schema}.uuid_v7());
  v_now timestamptz := {schema}.clock();
  v_key text := nullif(unique_key, '');
  v_due timestamptz := coalesce(due_at, v_now + delay);
begin
  perform {schema}._queue_check(topic, payload, correlation_id, headers, priority, unique_key);
  if due_at is not null and delay is not null then
    raise exception 'due_at and delay exclude each other' using errcode = 'invalid_parameter_value';
  elsif delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  elsif not isfinite(due_at) or not isfinite(expires_at) then
    raise exception 'due_at and expires_at must be finite' using errcode = 'invalid_parameter_value';
  end if;
  for try in 1 .. 100 loop
    insert into {schema}.{queue} (id, topic, payload, correlation_id, due_at, ready_at, created_at, headers, expires_at,
                                 lane, priority, unique_key)
    values (v_id, {queue}_try_enqueue.topic, {queue}_try_enqueue.payload, nullif({queue}_try_enqueue.correlation_id, ''),
            v_due, greatest(v_due, v_now), v_now, {queue}_try_enqueue.headers,
            {queue}_try_enqueue.expires_at, {queue}_try_enqueue.priority, {queue}_try_enqueue.priority, v_key)
    on conflict do nothing;
    if found then
      -- Looked for after the insert: whoever finished it meanwhile has let the insert pass.
      if message_id is not null and {schema}._{queue}_drop_known(v_id) then
        id := v_id;
        stored := false;
        return;
      end if;
      if notify and coalesce(v_due, v_now) <= v_now + interval '1 minute' and not exists (
           select from {schema}.{queue} o
            where o.lane = {queue}_try_enqueue.priority and o.ready_at between v_now - interval '1 second' and v_now
              and o.lease_until is null and o.id <> v_id) then
        perform {schema}._wake('{queue}');
      end if;
      id := v_id;
      stored := true;
      return;
    end if;
    select o.id into id from {schema}.{queue} o where o.id = v_id;
    if not found and message_id is not null then
      select a.id into id from {schema}.{queue}_archive a where a.id = v_id;
    end if;
    if not found and v_key is not null then
      select o.id into id from {schema}.{queue} o where o.unique_key = v_key;
    end if;
    if found then
      stored := false;
      return;
    end if;
    -- What stood in the way has been finished since.
  end loop;
  raise exception 'the message % was in the way of itself a hundred times', v_id using errcode = 'lock_not_available';
end
$function$;
comment on function {schema}.{queue}_try_enqueue is
  'Stores a message unless its id or its unique_key is known; returns its id and whether it was stored.';

-- Stores many; answers the places (from 1) of those that were not stored, with the id of the message that is there instead. An array that is
-- null stands for a column that no message uses. delays: microseconds from now, instead of due_at. fresh: the ids were drawn for this very call, so that none is known.
create function {schema}.{queue}_enqueue_many(
  ids             uuid[],
  topics          text[],
  payloads        text[],
  correlation_ids text[]        default null,
  due_at          timestamptz[] default null,
  headers         text[]        default null,
  expires_at      timestamptz[] default null,
  priorities      bigint[]      default null,
  unique_keys     text[]        default null,
  fresh           boolean       default false,
  notify          boolean       default true,
  delays          bigint[]      default null
) returns table (place bigint, existing_id uuid)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_now timestamptz := {schema}.clock();
begin
  if notify then
    perform {schema}._wake('{queue}');
  end if;
  if delays is not null then
    due_at := array(select coalesce(u.at, v_now + u.delay * interval '1 microsecond')
                      from unnest(due_at, delays) with ordinality as u(at, delay, place) order by u.place);
  end if;
  if fresh and coalesce(unique_keys, correlation_ids, headers) is null and due_at is null
     and {queue}_enqueue_many.expires_at is null and priorities is null then
    -- Most messages are no more than this. In the select list, unnest needs no room for all of its rows.
    insert into {schema}.{queue} (id, topic, payload, ready_at, created_at)
    select unnest(ids), unnest(topics), unnest(payloads), v_now, v_now;
    return;
  elsif fresh and unique_keys is null then
    insert into {schema}.{queue} (id, topic, payload, correlation_id, due_at, ready_at, created_at, headers, expires_at, lane,
                                 priority)
    select w.id, w.topic, w.payload, nullif(w.correlation_id, ''), w.due_at, greatest(w.due_at, v_now), v_now,
           w.headers::jsonb, w.expires_at, coalesce(w.priority, 0), coalesce(w.priority, 0)
      from unnest(ids, topics, payloads, correlation_ids, {queue}_enqueue_many.due_at, {queue}_enqueue_many.headers,
                  {queue}_enqueue_many.expires_at, priorities)
           as w(id, topic, payload, correlation_id, due_at, headers, expires_at, priority);
    return;
  end if;
  return query
  select w.place, e.id
    from unnest(ids, topics, payloads, correlation_ids, {queue}_enqueue_many.due_at, {queue}_enqueue_many.headers,
                {queue}_enqueue_many.expires_at, priorities, unique_keys) with ordinality
         as w(id, topic, payload, correlation_id, due_at, headers, expires_at, priority, unique_key, place)
   cross join lateral {schema}.{queue}_try_enqueue(
           w.topic, w.payload, w.id, w.correlation_id, w.due_at, w.headers::jsonb, w.expires_at,
           coalesce(w.priority, 0)::integer, w.unique_key, false) e
   where not e.stored
   order by w.place;
end
$function$;
comment on function {schema}.{queue}_enqueue_many is
  'Stores many messages; returns the places of those that were not stored, with the ids that are there instead.';

-- _{queue}_ended, _{queue}_lock_ends and _{queue}_replayed, without hooks so far.
do $block$
begin
  perform {schema}._queue_link_hooks('{queue}');
end
$block$;

-- Moves rows that the caller has locked into the archive. For the functions below, not for callers.
create function {schema}._{queue}_finish(locked tid[], status smallint, error text, processed_by uuid, charge integer)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_ids uuid[];
begin
  with gone as (
    delete from {schema}.{queue} o where o.ctid = any (locked)
    returning o.*
  ),
  kept as (
    insert into {schema}.{queue}_archive (
             processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts, status, priority, id,
             processed_by, topic, correlation_id, unique_key, headers, last_error, payload)
    select {schema}.clock(), g.created_at, g.claim_epoch, g.due_at, g.expires_at, g.attempts + charge, g.past_attempts,
           _{queue}_finish.status, g.priority, g.id, _{queue}_finish.processed_by, g.topic, g.correlation_id, g.unique_key,
           g.headers, coalesce(left(error, 2048), g.last_error), g.payload
      from gone g
    -- An id may be there already when a transaction with an old snapshot enqueued it anew: what happened last counts,
    -- and one message never stands in the way of the others.
    on conflict (id) do update
       set processed_at = excluded.processed_at, claim_epoch = excluded.claim_epoch, attempts = excluded.attempts,
           status = excluded.status, processed_by = excluded.processed_by, last_error = excluded.last_error
    returning id
  )
  select array_agg(k.id) into v_ids from kept k;
  if v_ids is null then
    return 0;
  end if;
  perform {schema}._{queue}_ended(v_ids, _{queue}_finish.status - 1);
  return cardinality(v_ids);
end
$function$;

-- What a claim must not hand out, among rows that it has locked: expired messages and those that their workers' deaths have
-- used up fail; those of paused topics are put into their lane. For {queue}_claim, not for callers.
--
-- Answers how many that were. A message that somebody attaches to a join at this moment, or whose join is locked, is left
-- for the next time: a claim never waits.
create function {schema}._{queue}_set_aside(locked tid[], at timestamptz, max_attempts integer, paused text[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
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
    v_ids := {schema}._{queue}_lock_ends(v_ids, false);
    v_rows := array(select o.ctid from {schema}.{queue} o where o.id = any (v_ids) and o.expires_at <= at);
    v_count := {schema}._{queue}_finish(v_rows, 3::smallint, 'expired before it was handled', null, 0);
    -- A reaper has charged those that it gave back; the others are charged here.
    v_rows := array(select o.ctid from {schema}.{queue} o where o.id = any (v_ids) and o.lease_until is null);
    v_count := v_count + {schema}._{queue}_finish(
      v_rows, 3::smallint, 'its lease ran out, and with it its last attempt', null, 0);
    v_rows := array(select o.ctid from {schema}.{queue} o where o.id = any (v_ids));
    v_count := v_count + {schema}._{queue}_finish(
      v_rows, 3::smallint, 'its lease ran out, and with it its last attempt', null, 1);
  end if;
  update {schema}.{queue} o
     set lane = -100, owner_token = null, lease_until = null,
         attempts = o.attempts + (o.lease_until is not null)::integer,
         lost_leases = least(o.lost_leases + (o.lease_until is not null)::integer, 1000)
   where o.ctid = any (locked) and o.topic = any (paused);
  get diagnostics v_parked = row_count;
  return v_count + v_parked;
end
$function$;

-- Leases up to batch_size messages that are due, or whose lease expired. An expired lease is charged as an attempt, and a
-- message whose last try ended that way fails when it has max_attempts. Exactly what is returned is leased.
--
-- topics: claims only messages of these topics; null: of all. except_topics: claims no messages of these. Other messages
-- are left alone, whatever their state. max_bytes: claims fewer messages when their payloads together exceed it; one
-- message is always claimed.
--
-- The sub-select that locks stands in a statement of its own and yields an array: joined in directly, the planner may
-- choose to run it again, and it would lock more rows than were asked for. Lane by lane, the highest first, it walks the index in the
-- order of claims and stops when it has enough: neither the length of the queue nor what is finished makes it slower.
--
-- The settings keep it on the index whatever the statistics say, planned once per session, and the just-in-time compiler
-- away from it: that, or planning anew, would take longer than the claim. For the same reason the functions here are
-- written in plpgsql: those in SQL are planned in every call.
--
-- after, after_ids: for each lane (-5 first) where the last claim of this worker began. Rows before that are passed over,
-- and with them the dead index entries that an old snapshot keeps vacuum from removing. null: from the start.
--
-- row_at: where the claimed row lies, for {queue}_ack. cut: the claim stopped there because of max_bytes.
create function {schema}.{queue}_claim(
  owner_token  uuid,
  batch_size   integer       default 50,
  lease        interval      default interval '30 seconds',
  max_attempts integer       default 10,
  after        timestamptz[] default null,
  after_ids    uuid[]        default null,
  topics        text[]       default null,
  except_topics text[]       default null,
  max_bytes     bigint       default 67108864
) returns table (
  id uuid, topic text, payload text, correlation_id text, headers jsonb, created_at timestamptz, due_at timestamptz,
  expires_at timestamptz, priority smallint, attempts integer, claim_epoch bigint, lease_until timestamptz,
  ready_at timestamptz, lost_leases smallint, row_at tid, cut boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_paused text[] := array(select p.topic from {schema}.{queue}_paused p order by p.topic for key share skip locked);
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
  elsif max_attempts is null or max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  elsif max_bytes < 1 then
    raise exception 'max_bytes must be at least 1' using errcode = 'invalid_parameter_value';
  end if;

  for round in 1 .. 20 loop
    -- After the first round there is much to pass over: look at more of it at once.
    select array_agg(picked.ctid), sum(picked.size) into v_rows, v_size
      from (select row.ctid, row.size
              from generate_series(5, -5, -1) as lanes(lane)
             cross join lateral (
               select r.ctid, octet_length(r.payload) as size from {schema}.{queue} r
                where r.lane = lanes.lane and r.ready_at <= v_now
                  and (r.ready_at, r.id) >= (coalesce(after[lanes.lane + 6], '-infinity'),
                                             coalesce(after_ids[lanes.lane + 6], '00000000-0000-0000-0000-000000000000'))
                  and (r.lease_until is null or r.lease_until <= v_now)
                  and (topics is null or r.topic = any (topics))
                  and (except_topics is null or r.topic <> all (except_topics))
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
      v_size := (select sum(octet_length(o.payload)) from {schema}.{queue} o where o.ctid = any (v_fit));
    end if;
    v_cut := v_bytes + v_size > max_bytes;
    if v_cut then
      v_fit := array(select f.row
                       from (select u.row, u.place, sum(octet_length(o.payload)) over (order by u.place) as total
                               from unnest(v_fit) with ordinality as u(row, place)
                               join {schema}.{queue} o on o.ctid = u.row) f
                      where v_bytes + f.total <= max_bytes or (v_bytes = 0 and f.place = 1));
    end if;

    return query
    update {schema}.{queue} o
       set owner_token = {queue}_claim.owner_token, claim_epoch = o.claim_epoch + 1,
           attempts = o.attempts + (o.lease_until is not null)::integer,
           lost_leases = least(o.lost_leases + (o.lease_until is not null)::integer, 1000),
           lease_until = {schema}.clock() + lease
     where o.ctid = any (v_fit) and (o.expires_at is null or o.expires_at > v_now)
       and ((o.lease_until is null and o.lost_leases = 0)
            or o.attempts + (o.lease_until is not null)::integer < max_attempts)
       and not o.topic = any (v_paused)
    returning o.id, o.topic::text, o.payload, o.correlation_id::text, o.headers::jsonb, o.created_at,
              o.due_at::timestamptz, o.expires_at::timestamptz, o.priority::smallint, o.attempts, o.claim_epoch,
              o.lease_until, o.ready_at, o.lost_leases, o.ctid, coalesce(v_cut, false);
    get diagnostics v_leased = row_count;
    if v_leased > 0 then
      v_bytes := v_bytes + v_size;
    end if;
    exit when v_leased = cardinality(v_rows) or (v_cut and v_leased > 0);

    v_aside := {schema}._{queue}_set_aside(v_rows, v_now, max_attempts, v_paused);
    v_left := v_left - v_leased;
    exit when v_left = 0 or (v_aside = 0 and cardinality(v_rows) < v_look and v_cut is not true);
    -- With nothing put aside, those in front are somebody else's for the moment: look further behind them.
    v_look := case when v_aside > 0 then greatest(v_left, 1000) else least(greatest(v_look * 4, 1000), 100000) end;
    if round = 20 then
      perform {schema}._wake('{queue}');  -- not done yet: somebody go on
    end if;
  end loop;
end
$function$;
comment on function {schema}.{queue}_claim is
  'Leases up to batch_size messages that are due to owner_token and returns them.';

-- For the functions below, not for callers.
create function {schema}._{queue}_check_claims(owner_token uuid, ids uuid[], epochs bigint[]) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if owner_token is null then
    raise exception 'owner_token must not be null' using errcode = 'invalid_parameter_value';
  elsif cardinality(ids) is distinct from cardinality(epochs) then
    raise exception 'ids and epochs must have the same length' using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- The rows of these claims that are this owner's, of this epoch, within their lease; locked in the order of their ids, so
-- that two calls never wait for each other. wait: false passes over rows that somebody else has locked.
-- For the functions below, not for callers.
create function {schema}._{queue}_lock_claims(owner_token uuid, ids uuid[], epochs bigint[], wait boolean default true)
  returns tid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_rows tid[];
begin
  perform {schema}._{queue}_check_claims(owner_token, ids, epochs);
  if wait then
    v_rows := array(
      select o.ctid from (select distinct u.id, u.epoch from unnest(ids, epochs) as u(id, epoch)) c
        join {schema}.{queue} o on o.id = c.id and o.claim_epoch = c.epoch
       where o.owner_token = _{queue}_lock_claims.owner_token and o.lease_until > v_now
       order by o.id
       for update of o);
  else
    v_rows := array(
      select o.ctid from (select distinct u.id, u.epoch from unnest(ids, epochs) as u(id, epoch)) c
        join {schema}.{queue} o on o.id = c.id and o.claim_epoch = c.epoch
       where o.owner_token = _{queue}_lock_claims.owner_token and o.lease_until > v_now
       order by o.id
       for no key update of o skip locked);
  end if;
  -- Again, now that they are locked: waiting may have taken longer than the lease.
  if v_rows <> '{}' and exists (select from {schema}.{queue} o
                                 where o.ctid = any (v_rows) and o.lease_until <= {schema}.clock()) then
    v_rows := array(select o.ctid from {schema}.{queue} o
                     where o.ctid = any (v_rows) and o.lease_until > {schema}.clock());
  end if;
  return v_rows;
end
$function$;

-- Which of these claims could be settled without waiting for a lock of somebody else. They stay locked until the
-- transaction ends.
create function {schema}._{queue}_settleable(owner_token uuid, ids uuid[], epochs bigint[]) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_ids uuid[];
begin
  perform {schema}._{queue}_check_claims(owner_token, ids, epochs);
  v_ids := array(
    select o.id from {schema}.{queue} o
     where o.id = any (ids) and o.owner_token = _{queue}_settleable.owner_token and o.lease_until > {schema}.clock()
       and ((o.id, o.claim_epoch) in (select u.id, u.epoch from unnest(ids, epochs) as u(id, epoch))) is true
     order by o.id
     for update skip locked);
  return case when v_ids = '{}' then v_ids else {schema}._{queue}_lock_ends(v_ids, false) end;
end
$function$;

-- Forgets that the leases of these messages expired: the process that held them is alive, so that they did not kill it.
-- Passes over messages that somebody else has locked.
create function {schema}._{queue}_absolve(ids uuid[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := array(select o.ctid from {schema}.{queue} o
                         where o.id = any (ids) and o.lost_leases > 0
                         order by o.id for no key update skip locked);
begin
  update {schema}.{queue} o set lost_leases = 0 where o.ctid = any (v_rows);
  return cardinality(v_rows);
end
$function$;

-- What follows the removal of acked messages, of whose leases `lease` ends first. For the functions below, not for callers.
create function {schema}._{queue}_acked(ids uuid[], lease timestamptz) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if lease <= {schema}.clock() then
    -- Somebody held a lock on it for that long. Called again, the ack leaves that one out.
    raise exception 'a lease ran out while its message was being acked' using errcode = 'serialization_failure';
  elsif ids is null then
    return 0;
  end if;
  -- A statement of its own: its snapshot is taken now that the messages are locked, so that it sees who joined them last.
  perform {schema}._{queue}_ended(ids, 1);
  return cardinality(ids);
end
$function$;

-- As {queue}_ack, for who does not know where the rows lie. For {queue}_ack, not for callers.
--
-- `= any` of an array walks the primary key in the order of the ids, and locks in that order; the epochs are looked up in a hash (as a
-- join, the planner could choose another order).
create function {schema}._{queue}_ack_by_id(owner_token uuid, ids uuid[], epochs bigint[], keep boolean) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_ids uuid[];
  v_lease timestamptz;
begin
  if not keep then
    with gone as (
      delete from {schema}.{queue} o
       where o.id = any (ids) and o.owner_token = _{queue}_ack_by_id.owner_token and o.lease_until > v_now
         and ((o.id, o.claim_epoch) in (select u.id, u.epoch from unnest(ids, epochs) as u(id, epoch))) is true
      returning o.id, o.lease_until
    )
    select array_agg(g.id), min(g.lease_until) into v_ids, v_lease from gone g;
  elsif exists (select from {schema}.{queue}_archive a where a.id = any (ids)) then
    -- One of them is in the archive already; _{queue}_finish knows what to do.
    return {schema}._{queue}_finish({schema}._{queue}_lock_claims(owner_token, ids, epochs), 2::smallint, null, owner_token, 0);
  else
    with gone as (
      delete from {schema}.{queue} o
       where o.id = any (ids) and o.owner_token = _{queue}_ack_by_id.owner_token and o.lease_until > v_now
         and ((o.id, o.claim_epoch) in (select u.id, u.epoch from unnest(ids, epochs) as u(id, epoch))) is true
      returning o.*
    ),
    kept as (
      insert into {schema}.{queue}_archive (
               processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts, status, priority, id,
               processed_by, topic, correlation_id, unique_key, headers, last_error, payload)
      select {schema}.clock(), g.created_at, g.claim_epoch, g.due_at, g.expires_at, g.attempts, g.past_attempts, 2,
             g.priority, g.id, g.owner_token, g.topic, g.correlation_id, g.unique_key, g.headers, g.last_error, g.payload
        from gone g
    )
    select array_agg(g.id), min(g.lease_until) into v_ids, v_lease from gone g;
  end if;
  return {schema}._{queue}_acked(v_ids, v_lease);
end
$function$;

-- Removes acked messages at the rows where their claims found them, in the order of the arrays; answers their ids, and when the first of
-- their leases ends. For {queue}_ack, not for callers: the settings leave one way to read the table, that to the rows of the array, and hold
-- for whatever is called from here.
create function {schema}._{queue}_ack_rows(
  owner_token uuid, ids uuid[], epochs bigint[], rows tid[], keep boolean, out gone_ids uuid[], out lease timestamptz
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
  set enable_indexscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  if keep then
    with gone as (
      delete from {schema}.{queue} o using unnest(ids, epochs, rows) as u(id, epoch, row)
       where o.ctid = u.row and o.id = u.id and o.claim_epoch = u.epoch and o.owner_token = _{queue}_ack_rows.owner_token
         and o.lease_until > v_now
      returning o.*
    ),
    kept as (
      insert into {schema}.{queue}_archive (
               processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts, status, priority, id,
               processed_by, topic, correlation_id, unique_key, headers, last_error, payload)
      select {schema}.clock(), g.created_at, g.claim_epoch, g.due_at, g.expires_at, g.attempts, g.past_attempts, 2,
             g.priority, g.id, g.owner_token, g.topic, g.correlation_id, g.unique_key, g.headers, g.last_error, g.payload
        from gone g
    )
    select array_agg(g.id), min(g.lease_until) into gone_ids, lease from gone g;
  else
    with gone as (
      delete from {schema}.{queue} o using unnest(ids, epochs, rows) as u(id, epoch, row)
       where o.ctid = u.row and o.id = u.id and o.claim_epoch = u.epoch and o.owner_token = _{queue}_ack_rows.owner_token
         and o.lease_until > v_now
      returning o.id, o.lease_until
    )
    select array_agg(g.id), min(g.lease_until) into gone_ids, lease from gone g;
  end if;
end
$function$;

-- Marks claimed messages as done; answers how many. What is not this owner's live claim of this epoch is left alone, here
-- and below. keep: with history; without, they are deleted.
--
-- rows: where {queue}_claim found them (row_at), which makes it faster for many. They are locked in the order of the arrays:
-- give them in the order of the ids, like everybody. When one of them does not lie there any more (a renewal moves it), or is in the
-- archive already, all is done anew by the ids.
create function {schema}.{queue}_ack(
  owner_token uuid, ids uuid[], epochs bigint[], keep boolean default true, rows tid[] default null
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_ids uuid[];
  v_lease timestamptz;
begin
  perform {schema}._{queue}_check_claims(owner_token, ids, epochs);
  if rows is null then
    return {schema}._{queue}_ack_by_id(owner_token, ids, epochs, keep);
  elsif cardinality(rows) is distinct from cardinality(ids) then
    raise exception 'ids and rows must have the same length' using errcode = 'invalid_parameter_value';
  end if;
  begin
    select r.gone_ids, r.lease into v_ids, v_lease from {schema}._{queue}_ack_rows(owner_token, ids, epochs, rows, keep) r;
    if coalesce(cardinality(v_ids), 0) < cardinality(ids) then
      raise sqlstate 'DVT01';
    end if;
  exception when unique_violation or sqlstate 'DVT01' then
    return {schema}._{queue}_ack_by_id(owner_token, ids, epochs, keep);
  end;
  return {schema}._{queue}_acked(v_ids, v_lease);
end
$function$;
comment on function {schema}.{queue}_ack is
  'Marks claimed messages as done; returns how many claims were still held.';

-- Gives claimed messages back for another try after `delay` (null: after the usual backoff); answers how many. Each is
-- charged an attempt, and fails when that makes max_attempts.
create function {schema}.{queue}_abandon(
  owner_token  uuid,
  ids          uuid[],
  epochs       bigint[],
  error        text     default null,
  delay        interval default null,
  max_attempts integer  default 10
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
  v_spent tid[];
  v_count integer := 0;
begin
  if max_attempts is null or max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  elsif delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  elsif v_rows = '{}' then
    return 0;
  end if;
  v_spent := array(select o.ctid from {schema}.{queue} o where o.ctid = any (v_rows) and o.attempts + 1 >= max_attempts);
  if v_spent <> '{}' then
    v_count := {schema}._{queue}_finish(v_spent, 3::smallint, error, owner_token, 1);
    v_rows := array(select unnest(v_rows) except select unnest(v_spent));
  end if;
  update {schema}.{queue} o
     set owner_token = null, lease_until = null, attempts = o.attempts + 1, lost_leases = 0,
         ready_at = {schema}.clock() + coalesce(delay, {schema}._queue_backoff(o.attempts + 1)),
         last_error = coalesce(left(error, 2048), o.last_error)
   where o.ctid = any (v_rows);
  return v_count + cardinality(v_rows);
end
$function$;
comment on function {schema}.{queue}_abandon is
  'Gives claimed messages back after a failure: they are retried after a delay, or become dead letters at max_attempts.';

-- Fails claimed messages for good: they become dead letters. Answers how many. charge: the try that failed counts as an
-- attempt; zero when there was none.
create function {schema}.{queue}_fail(owner_token uuid, ids uuid[], epochs bigint[], error text, charge integer default 1)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
begin
  if error is null then
    raise exception 'error must not be null' using errcode = 'invalid_parameter_value';
  elsif v_rows = '{}' then
    return 0;
  end if;
  return {schema}._{queue}_finish(v_rows, 3::smallint, error, owner_token, charge);
end
$function$;
comment on function {schema}.{queue}_fail is
  'Makes claimed messages dead letters.';

-- Gives claimed messages back without charging an attempt: after `delay`, or (null) at once and to their old place.
-- Answers how many.
create function {schema}.{queue}_snooze(owner_token uuid, ids uuid[], epochs bigint[], delay interval default null)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
begin
  if delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  end if;
  update {schema}.{queue} o
     set owner_token = null, lease_until = null, ready_at = coalesce({schema}.clock() + delay, o.ready_at)
   where o.ctid = any (v_rows);
  return cardinality(v_rows);
end
$function$;
comment on function {schema}.{queue}_snooze is
  'Gives claimed messages back without charging an attempt.';

-- Lets the leases of claimed messages end `lease` from now; answers those that were still held, and not locked by
-- somebody who settles them at this moment.
create function {schema}.{queue}_renew(
  owner_token uuid,
  ids         uuid[],
  epochs      bigint[],
  lease       interval default interval '30 seconds'
) returns setof uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs, false);
begin
  if lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  end if;
  return query
  update {schema}.{queue} o set lease_until = {schema}.clock() + lease where o.ctid = any (v_rows) returning o.id;
end
$function$;
comment on function {schema}.{queue}_renew is
  'Extends the leases of claimed messages; returns the ids that are still held.';

-- Takes back leases that expired, up to `most`; answers how many. Each is charged as an attempt. The limit of attempts belongs
-- to those who handle a topic: the next claim that takes the message lets it fail. With max_attempts it fails here. It reads
-- the whole queue, or (look_at) only so many due rows of each lane: what is in progress stands near the front.
create function {schema}.{queue}_reap_expired(
  max_attempts integer default null,
  most         integer default 1000,
  look_at      integer default null
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_rows tid[];
  v_spent uuid[];
  v_count integer;
begin
  if max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  if look_at is null then
    v_rows := array(select o.ctid from {schema}.{queue} o where o.lease_until <= v_now limit most for update skip locked);
  else
    v_rows := array(
      select o.ctid from {schema}.{queue} o
       where o.lease_until <= v_now and o.ctid = any (array(
               select near.ctid
                 from generate_series(5, -5, -1) as lanes(lane)
                cross join lateral (select r.ctid from {schema}.{queue} r
                                     where r.lane = lanes.lane and r.ready_at <= v_now
                                     order by r.ready_at, r.id limit look_at) near))
       limit most for update skip locked);
  end if;
  if v_rows = '{}' then
    return 0;
  end if;
  v_spent := array(select o.id from {schema}.{queue} o where o.ctid = any (v_rows) and o.attempts + 1 >= max_attempts);
  update {schema}.{queue} o
     set owner_token = null, lease_until = null, attempts = o.attempts + 1,
         lost_leases = least(o.lost_leases + 1, 1000)
   where o.ctid = any (v_rows) and o.id <> all (v_spent);
  get diagnostics v_count = row_count;
  if v_spent <> '{}' then
    v_spent := {schema}._{queue}_lock_ends(v_spent, false);
    v_count := v_count + {schema}._{queue}_finish(
      array(select o.ctid from {schema}.{queue} o where o.id = any (v_spent)),
      3::smallint, 'its lease ran out, and with it its last attempt', null, 1);
  end if;
  return v_count;
end
$function$;
comment on function {schema}.{queue}_reap_expired is
  'Takes back messages whose leases have expired; returns how many.';

-- When the next message that waits for its time comes due; null when there is none within a day. topics, except_topics: as
-- for {queue}_claim; behind a hundred messages of other topics the answer is the time of the hundredth: look again then.
create function {schema}.{queue}_next_due(topics text[] default null, except_topics text[] default null)
  returns timestamptz
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  return (
    select min(next.ready_at)
      from generate_series(-5, 5) as lanes(lane)
     cross join lateral (
             select coalesce(min(f.ready_at) filter (where (topics is null or f.topic = any (topics))
                                                       and (except_topics is null or f.topic <> all (except_topics))),
                             case count(*) when 100 then max(f.ready_at) end) as ready_at
               from (select o.ready_at, o.topic from {schema}.{queue} o
                      where o.lane = lanes.lane and o.ready_at > (select {schema}.clock())
                        and o.ready_at < (select {schema}.clock()) + interval '1 day'
                      order by o.ready_at
                      limit case when topics is null and except_topics is null then 1 else 100 end) f) next);
end
$function$;
comment on function {schema}.{queue}_next_due is
  'The time when the next message comes due, within a day.';

-- How many messages are in which state, and since when the oldest that could be claimed waits. Never counts further than
-- `most`: neither the queue nor the archive makes it slow (but for the oldest one, which is looked for behind those in progress).
create function {schema}.{queue}_counts(
  most bigint default 100000,
  out ready bigint, out scheduled bigint, out in_progress bigint, out done bigint, out failed bigint, out paused bigint,
  out oldest_due interval
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  select count(*) filter (where not due.leased), count(*) filter (where due.leased) into ready, in_progress
    from (select each.leased
            from generate_series(-5, 5) as lanes(lane)
           cross join lateral (select o.lease_until is not null as leased from {schema}.{queue} o
                                where o.lane = lanes.lane and o.ready_at <= v_now limit most) each
           limit most) due;
  scheduled := (select count(*) from (
    select from generate_series(-5, 5) as lanes(lane)
     cross join lateral (select from {schema}.{queue} o
                          where o.lane = lanes.lane and o.ready_at > v_now limit most) each
     limit most) later);
  done := (select count(*) from (select from {schema}.{queue}_archive where status = 2 limit most) kept);
  failed := (select count(*) from (select from {schema}.{queue}_archive where status = 3 limit most) dead);
  paused := (select count(*) from (select from {schema}.{queue} where lane = -100 limit most) parked);
  oldest_due := (
    select v_now - min(oldest.ready_at)
      from generate_series(-5, 5) as lanes(lane)
     cross join lateral (select o.ready_at from {schema}.{queue} o
                          where o.lane = lanes.lane and o.ready_at <= v_now and o.lease_until is null
                          order by o.ready_at limit 1) oldest);
end
$function$;
comment on function {schema}.{queue}_counts is
  'How many messages are in each state, counted up to a limit, and for how long the oldest due one waits.';

-- The topics of messages that have been due for at least `waiting` and that no worker holds, among the
-- first `look_at` messages of each lane: how many messages of the topic were seen, and how long the
-- oldest one has waited. Paused topics are left out.
create function {schema}._{queue}_due_topics(waiting interval, look_at integer)
  returns table (topic text, seen bigint, oldest_wait interval)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  return query
  select front.topic::text, count(*), v_now - min(front.ready_at)
    from generate_series(-5, 5) as lanes(lane)
   cross join lateral (select o.topic, o.ready_at, o.lease_until from {schema}.{queue} o
                        where o.lane = lanes.lane and o.ready_at <= v_now - waiting
                        order by o.ready_at, o.id limit look_at) front
   where (front.lease_until is null or front.lease_until <= v_now)
     and not exists (select from {schema}.{queue}_paused p where p.topic = front.topic)
   group by front.topic;
end
$function$;

-- Makes failed messages ready again, with their attempts at zero and their history kept; answers how many. Those whose
-- unique_key another message has taken since stay where they are. Oldest first, up to `most`.
create function {schema}.{queue}_replay(
  ids           uuid[]      default null,
  only_topic    text        default null,
  failed_after  timestamptz default null,
  failed_before timestamptz default null,
  most          integer     default 1000
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_ids uuid[];
begin
  with chosen as materialized (
    select a.* from {schema}.{queue}_archive a
     where a.status = 3 and ({queue}_replay.ids is null or a.id = any ({queue}_replay.ids))
       and (only_topic is null or a.topic = only_topic)
       and (failed_after is null or a.processed_at >= failed_after)
       and (failed_before is null or a.processed_at < failed_before)
       and (a.unique_key is null or not exists (select from {schema}.{queue} o where o.unique_key = a.unique_key))
     order by a.id
     limit most
     for update skip locked
  ),
  back as (
    insert into {schema}.{queue} (ready_at, created_at, claim_epoch, due_at, past_attempts, lane, priority, id, topic,
                                 correlation_id, unique_key, headers, last_error, payload)
    select {schema}.clock(), c.created_at, c.claim_epoch, c.due_at, c.past_attempts + c.attempts, c.priority, c.priority,
           c.id, c.topic, c.correlation_id, c.unique_key, c.headers, c.last_error, c.payload
      from chosen c
    on conflict do nothing
    returning id
  ),
  gone as (
    delete from {schema}.{queue}_archive a using back where a.id = back.id returning a.id
  )
  select array_agg(g.id) into v_ids from gone g;
  if v_ids is null then
    return 0;
  end if;
  perform {schema}._{queue}_replayed(v_ids);
  return cardinality(v_ids);
end
$function$;
comment on function {schema}.{queue}_replay is
  'Makes dead letters ready again; returns how many.';

-- Deletes finished messages, done (2) or failed (3) ones, oldest first, up to `most`; answers how many. Every argument that is
-- given narrows it down.
create function {schema}.{queue}_purge(
  with_status     integer,
  finished_after  timestamptz default null,
  finished_before timestamptz default null,
  ids             uuid[]      default null,
  only_topic      text        default null,
  most            integer     default 1000
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[];
begin
  if with_status is null or with_status not in (2, 3) then
    raise exception 'with_status must be 2 (done) or 3 (failed)' using errcode = 'invalid_parameter_value';
  elsif with_status = 2 and {queue}_purge.ids is null then
    v_rows := array(select a.ctid from {schema}.{queue}_archive a
                     where a.status = 2 and a.processed_at >= coalesce(finished_after, '-infinity')
                       and a.processed_at < coalesce(finished_before, 'infinity')
                       and (only_topic is null or a.topic = only_topic)
                     order by a.processed_at limit most for update skip locked);
  else
    v_rows := array(select a.ctid from {schema}.{queue}_archive a
                     where a.status = with_status and a.processed_at >= coalesce(finished_after, '-infinity')
                       and a.processed_at < coalesce(finished_before, 'infinity')
                       and ({queue}_purge.ids is null or a.id = any ({queue}_purge.ids))
                       and (only_topic is null or a.topic = only_topic)
                     order by a.id limit most for update skip locked);
  end if;
  delete from {schema}.{queue}_archive a where a.ctid = any (v_rows);
  return cardinality(v_rows);
end
$function$;
comment on function {schema}.{queue}_purge is
  'Deletes done (2) or failed (3) messages; returns how many.';

-- Keeps messages of a topic from being claimed; those that are claimed already go on. Answers whether it was not paused yet.
create function {schema}.{queue}_pause(topic text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if {queue}_pause.topic is null or {queue}_pause.topic = '' then
    raise exception 'topic must not be null or empty' using errcode = 'invalid_parameter_value';
  end if;
  insert into {schema}.{queue}_paused (topic) values ({queue}_pause.topic) on conflict do nothing;
  return found;
end
$function$;
comment on function {schema}.{queue}_pause is
  'Pauses a topic: its messages stay queued. Returns false when it was paused before.';

-- Lets messages of a topic that is not paused (null: of all such topics) back into the queue, up to `most`; answers how
-- many. Claims put them aside while it was paused.
create function {schema}.{queue}_unpark(topic text default null, most integer default 1000) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_topics text[];
  v_count integer;
begin
  with recursive parked(topic) as (
    (select o.topic from {schema}.{queue} o where o.lane = -100 order by o.topic limit 1)
    union all
    select (select o.topic from {schema}.{queue} o where o.lane = -100 and o.topic > p.topic order by o.topic limit 1)
      from parked p where p.topic is not null
  )
  select array_agg(p.topic) into v_topics from parked p
   where p.topic is not null and ({queue}_unpark.topic is null or p.topic = {queue}_unpark.topic)
     and not exists (select from {schema}.{queue}_paused still where still.topic = p.topic);
  if v_topics is null then
    return 0;
  end if;
  update {schema}.{queue} o set lane = o.priority
   where o.ctid = any (array(select p.ctid from {schema}.{queue} p
                              where p.lane = -100 and p.topic = any (v_topics)
                              limit most for update skip locked));
  get diagnostics v_count = row_count;
  return v_count;
end
$function$;
comment on function {schema}.{queue}_unpark is
  'Puts messages of topics that are no longer paused back into the queue; returns how many.';

-- Ends a topic's pause; answers whether it was paused. The first thousand messages that were put aside come back with it;
-- for more, call {queue}_unpark until it answers zero, or leave that to a worker.
create function {schema}.{queue}_resume(topic text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_found boolean;
begin
  delete from {schema}.{queue}_paused p where p.topic = {queue}_resume.topic;
  v_found := found;
  perform {schema}.{queue}_unpark({queue}_resume.topic);
  perform {schema}._wake('{queue}');
  return v_found;
end
$function$;
comment on function {schema}.{queue}_resume is
  'Resumes a paused topic; returns false when it was not paused.';
