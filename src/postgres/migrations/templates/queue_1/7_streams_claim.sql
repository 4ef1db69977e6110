-- Claiming streams.

-- One claim of streams at a time. A claim waits for another one for 50 ms, not for a transaction
-- that stays open.
create function {schema}._{queue}_lock_streams() returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  for try in 1 .. 50 loop
    if pg_try_advisory_xact_lock(hashtextextended('dovetail {schema}.{queue}_stream', 0)) then
      return true;
    end if;
    perform pg_sleep(0.001);
  end loop;
  return false;
end
$function$;

-- Of streams with tickets at the given messages: those that this claim may lease. It locks the
-- rows of the streams, and returns
--   free      up to `most` streams that nobody has
--   above     the place behind which their messages begin
--   spent     the tickets of these and of streams that are leased or blocked
-- Streams whose rows are locked by another transaction are in neither: their tickets stay. A list
-- is searched with `in (select unnest(list))`, which the server does with a hash table.
create function {schema}._{queue}_free_streams(
  ids uuid[], most integer, out free text[], out above bigint[], out spent uuid[]
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_locked text[];
begin
  v_locked := array(
    select s.stream::text from {schema}.{queue}_stream s
     where s.stream = any (array(select distinct o.stream::text from {schema}.{queue} o
                                  where o.id = any (ids)))
       for update skip locked);
  with ticket as materialized (
    select o.id, o.stream::text as stream, o.seq, u.place, s.passed,
           s.stream is not null as is_known,
           s.owner_token is not null or s.blocked_at is not null as is_taken
      from unnest(ids) with ordinality as u(id, place)
      join {schema}.{queue} o on o.id = u.id
      left join {schema}.{queue}_stream s on s.stream = o.stream
  ),
  -- Messages that were committed late lie below the mark.
  lowered as (
    update {schema}.{queue}_stream s set passed = t.first - 1
      from (select t.stream, min(t.seq) as first from ticket t
             where t.is_known and t.stream in (select unnest(v_locked)) group by t.stream) t
     where s.stream = t.stream and s.passed >= t.first
  ),
  wanted as materialized (
    select t.stream, min(t.place) as place, min(t.seq) as first, max(t.passed) as passed,
           bool_or(t.is_taken) as is_taken, array_agg(t.id) as ids,
           row_number() over (partition by bool_or(t.is_taken) order by min(t.place)) as nth
      from ticket t
     where not t.is_known or t.stream in (select unnest(v_locked))
     group by t.stream
  )
  select array_agg(w.stream order by w.place) filter (where not w.is_taken and w.nth <= most),
         array_agg(least(coalesce(w.passed, 0), w.first - 1) order by w.place)
           filter (where not w.is_taken and w.nth <= most),
         array(select unnest(k.ids) from wanted k where k.is_taken or k.nth <= most)
    into free, above, spent
    from wanted w;
end
$function$;

-- Internal. Raises an error if an argument of a claim is not valid.
create function {schema}._{queue}_check_claim(
  owner_token uuid, batch_size integer, lease interval, max_attempts integer, max_bytes bigint
) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if owner_token is null then
    raise exception 'owner_token must not be null' using errcode = 'invalid_parameter_value';
  elsif batch_size is null or batch_size < 1 then
    raise exception 'batch_size must be at least 1' using errcode = 'invalid_parameter_value';
  elsif lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  elsif max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  elsif max_bytes < 1 then
    raise exception 'max_bytes must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- First messages that a claim must not return: expired ones fail, and those of paused topics are
-- parked. Returns how many. A message whose join is locked is left for the next time.
create function {schema}._{queue}_set_streams_aside(
  streams text[], above bigint[], at timestamptz, paused text[]
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_first uuid[];
  v_ids uuid[];
  v_count integer;
begin
  v_first := array(
    select f.id from unnest(streams, above) as u(stream, above)
     cross join lateral (select q.id, q.expires_at, q.topic from {schema}.{queue} q
                          where q.stream = u.stream and q.seq > u.above order by q.seq limit 1) f
     where f.expires_at <= at or f.topic = any (paused));
  if v_first = '{}' then
    return 0;
  end if;
  v_ids := array(select o.id from {schema}.{queue} o where o.id = any (v_first)
                    and o.expires_at <= at for update skip locked);
  if v_ids <> '{}' then
    v_ids := {schema}._{queue}_lock_ends(v_ids, false);
  end if;
  v_count := {schema}._{queue}_finish(
    array(select o.ctid from {schema}.{queue} o where o.id = any (v_ids)),
    3::smallint, 'expired before it was handled', null, 0);
  update {schema}.{queue} o set lane = -100
   where o.id = any (array(select q.id from {schema}.{queue} q
                            where q.id = any (v_first) and q.lane >= 15 and q.topic = any (paused)
                              for no key update skip locked));
  return v_count;
end
$function$;

-- Leases streams and returns the first messages of each, up to batch_size messages together. The
-- messages of one stream have ascending `seq`: handle them one after the other, and stop at the
-- first that fails. Each is settled like other claims, and the lease of the stream ends with the
-- last settlement. The arguments are those of {queue}_claim. only_ids: only streams with tickets at
-- these messages. partitions: only streams of these partitions, out of partition_count.
create function {schema}.{queue}_claim_streams(
  owner_token   uuid,
  batch_size    integer       default 50,
  lease         interval      default interval '30 seconds',
  max_attempts  integer       default null,
  after         timestamptz[] default null,
  after_ids     uuid[]        default null,
  topics        text[]        default null,
  except_topics text[]        default null,
  max_bytes     bigint        default 67108864,
  only_ids      uuid[]        default null,
  partitions    integer[]     default null,
  partition_count integer     default 10000
) returns table (
  id uuid, topic text, payload text, correlation_id text, headers jsonb, created_at timestamptz,
  due_at timestamptz, expires_at timestamptz, priority smallint, attempts integer,
  claim_epoch bigint, lease_until timestamptz, ready_at timestamptz, lost_leases smallint,
  cut boolean, stream text, seq bigint, stages smallint
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_epoch bigint;
  v_paused text[] := array(select p.topic from {schema}.{queue}_paused p order by p.topic
                              for key share skip locked);
  v_ids uuid[];
  v_free record;
  v_leased text[];
  v_left integer := batch_size;
  v_look integer;
  v_per integer := 8;  -- messages per stream, in the last round
  v_got integer;
  v_bytes bigint := 0;
begin
  perform {schema}._{queue}_check_claim(owner_token, batch_size, lease, max_attempts, max_bytes);
  max_attempts := coalesce({queue}_claim_streams.max_attempts, 2147483647);
  if not {schema}._{queue}_lock_streams() then
    return;
  end if;
  perform {schema}._{queue}_reap_streams();
  v_look := greatest(1, v_left / v_per);
  for round in 1 .. 20 loop
    v_now := {schema}.clock();
    v_ids := array(
      select picked.id
        from (select row.id
                from generate_series(25, 15, -1) as lanes(lane)
               cross join lateral (
                 select r.id from {schema}.{queue} r
                  where r.lane = lanes.lane and r.ready_at <= v_now
                    and (r.ready_at, r.id) >=
                        (coalesce(after[lanes.lane - 14], '-infinity'),
                         coalesce(after_ids[lanes.lane - 14],
                                  '00000000-0000-0000-0000-000000000000'))
                    and (topics is null or r.topic = any (topics))
                    and (except_topics is null or r.topic <> all (except_topics))
                    and (only_ids is null or r.id = any (only_ids))
                    and (partitions is null
                         or {schema}.stream_partition(r.stream, partition_count)
                            in (select unnest(partitions)))
                  order by r.ready_at, r.id
                  limit v_look
                    for no key update skip locked) row
               limit v_look) picked);
    exit when v_ids = '{}';
    select * into v_free from {schema}._{queue}_free_streams(v_ids, v_left);
    v_got := 0;
    v_leased := '{}';
    if v_free.free is not null then
      v_epoch := nextval('{schema}.{queue}_stream_epoch');
      return query
      with look as materialized (
        select u.place, u.above, o.*
          from unnest(v_free.free, v_free.above) with ordinality as u(stream, above, place)
         cross join lateral (
           select q.* from {schema}.{queue} q where q.stream = u.stream and q.seq > u.above
            order by q.seq limit greatest(1, v_left / cardinality(v_free.free))) o
      ),
      run as materialized (
        select l.*, row_number() over w as n, first_value(l.lost_leases) over w as first_losses,
               bool_and(l.ready_at <= v_now
                        and (topics is null or l.topic = any (topics))
                        and (except_topics is null or l.topic <> all (except_topics))
                        and not l.topic = any (v_paused)
                        and (l.expires_at is null or l.expires_at > v_now)
                        and (l.lost_leases = 0 or l.attempts < max_attempts)) over w as goes_on,
               sum(octet_length(l.payload)) over (order by l.place, l.seq) as bytes
          from look l
        window w as (partition by l.place order by l.seq)
      ),
      taken as materialized (
        select r.* from run r
         where r.goes_on and (r.n = 1 or (r.first_losses = 0 and r.lost_leases = 0))
           and (v_bytes + r.bytes <= max_bytes or (v_bytes = 0 and r.n = 1 and r.place = 1))
      ),
      leased as (
        insert into {schema}.{queue}_stream as s
               (stream, epoch, run_to, passed, unsettled, lease_until, owner_token)
        select t.stream, v_epoch, max(t.seq), min(t.above), count(*), {schema}.clock() + lease,
               {queue}_claim_streams.owner_token
          from taken t group by t.stream
        on conflict (stream) do update
           set epoch = excluded.epoch, run_to = excluded.run_to, passed = excluded.passed,
               unsettled = excluded.unsettled, lease_until = excluded.lease_until,
               owner_token = excluded.owner_token
        returning s.lease_until
      )
      select t.id, t.topic::text, t.payload, t.correlation_id::text, t.headers::jsonb,
             t.created_at, t.due_at::timestamptz, t.expires_at::timestamptz,
             t.priority::smallint, t.attempts, v_epoch, (select min(e.lease_until) from leased e),
             t.ready_at, t.lost_leases,
             exists (select from run r where v_bytes + r.bytes > max_bytes), t.stream::text, t.seq,
             t.stages
        from taken t
       order by t.place, t.seq;
      get diagnostics v_got = row_count;
      v_leased := array(select s.stream::text from {schema}.{queue}_stream s
                         where s.stream = any (v_free.free) and s.epoch = v_epoch);
      v_bytes := v_bytes + coalesce((
        select sum(octet_length(o.payload)) from {schema}.{queue}_stream s
          join {schema}.{queue} o on o.stream = s.stream and o.seq > s.passed and o.seq <= s.run_to
         where s.stream = any (v_leased)), 0);
      if cardinality(v_leased) < cardinality(v_free.free) then
        perform {schema}._{queue}_set_streams_aside(v_free.free, v_free.above, v_now, v_paused);
        perform {schema}._{queue}_block_exhausted(v_free.free, v_free.above, max_attempts);
      end if;
    end if;
    update {schema}.{queue} o set lane = null
     where o.id = any (v_free.spent) and o.lane >= 15
       and (o.stream::text in (select unnest(v_leased))
            or not o.stream::text in (select unnest(coalesce(v_free.free, '{}'))));
    -- A ticket at the first message of a stream that was not leased stays: the bytes did not fit.
    if cardinality(v_leased) < cardinality(v_free.free) then
      update {schema}.{queue} o set lane = null
        from unnest(v_free.free, v_free.above) as u(stream, above)
       where o.id = any (v_free.spent) and o.lane >= 15 and o.stream = u.stream
         and exists (select from {schema}.{queue} e
                      where e.stream = o.stream and e.seq < o.seq and e.seq > u.above);
    end if;
    v_left := v_left - v_got;
    exit when v_left <= 0 or v_bytes >= max_bytes or (v_bytes > 0 and v_got = 0);
    if v_got = 0 then
      v_look := least(v_look * 4, 10000);
    else
      v_per := greatest(1, v_got / cardinality(v_leased));
      v_look := greatest(1, v_left / v_per);
    end if;
    if round = 20 then
      perform {schema}._wake('{queue}');  -- there may be more
    end if;
  end loop;
end
$function$;
comment on function {schema}.{queue}_claim_streams is
  'Leases streams to owner_token and returns their first messages, in order.';
