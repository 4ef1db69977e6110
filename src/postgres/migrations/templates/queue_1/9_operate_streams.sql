-- Operating streams: blocked streams, and a list of streams.

-- Blocks streams whose first messages have used up their attempts by lost leases. Workers that
-- apply the limit of a handler themselves claim with a higher limit.
create function {schema}._{queue}_block_exhausted(
  streams text[], above bigint[], max_attempts integer
) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_first uuid[];
begin
  v_first := array(
    select f.id from unnest(streams, above) as u(stream, above)
     cross join lateral (select q.id, q.lost_leases, q.attempts from {schema}.{queue} q
                          where q.stream = u.stream and q.seq > u.above order by q.seq limit 1) f
     where f.lost_leases > 0 and f.attempts >= max_attempts);
  if v_first = '{}' then
    return;
  end if;
  insert into {schema}.{queue}_stream as s (stream, blocked_at)
  select o.stream, {schema}.clock() from {schema}.{queue} o where o.id = any (v_first)
  on conflict (stream) do update set blocked_at = excluded.blocked_at;
  update {schema}.{queue} o
     set lane = -102, last_error = 'its lease ran out, and with it its last attempt'
   where o.id = any (v_first);
end
$function$;

-- Lets a blocked stream continue: with its first message, whose attempts start again. Returns false
-- when the stream is not blocked.
create function {schema}.{queue}_stream_resume(stream text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
begin
  perform from {schema}.{queue}_stream s
    where s.stream = {queue}_stream_resume.stream and s.blocked_at is not null for update;
  if not found then
    return false;
  end if;
  update {schema}.{queue} o
     set lane = null, past_attempts = o.past_attempts + o.attempts, attempts = 0, lost_leases = 0,
         ready_at = {schema}.clock()
   where o.stream = {queue}_stream_resume.stream and o.lane = -102;
  perform {schema}._{queue}_unblock({queue}_stream_resume.stream);
  return true;
end
$function$;
comment on function {schema}.{queue}_stream_resume is
  'Lets a blocked stream retry its first message; returns false when it is not blocked.';

-- Lets a blocked stream continue behind its first message, which becomes a dead letter. Returns
-- false when the stream is not blocked.
create function {schema}.{queue}_stream_skip(stream text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_ids uuid[];
begin
  v_ids := array(select o.id from {schema}.{queue} o
                  where o.stream = {queue}_stream_skip.stream and o.lane = -102
                  order by o.id for update);
  perform {schema}._{queue}_lock_ends(v_ids, true);
  perform from {schema}.{queue}_stream s
    where s.stream = {queue}_stream_skip.stream and s.blocked_at is not null for update;
  if not found then
    return false;
  end if;
  perform {schema}._{queue}_finish(
    array(select o.ctid from {schema}.{queue} o where o.id = any (v_ids) and o.lane = -102),
    3::smallint, null, null, 0);
  perform {schema}._{queue}_unblock({queue}_stream_skip.stream);
  return true;
end
$function$;
comment on function {schema}.{queue}_stream_skip is
  'Makes the first message of a blocked stream a dead letter, and lets the stream continue.';

-- The row of the stream is locked.
create function {schema}._{queue}_unblock(stream text) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
begin
  update {schema}.{queue}_stream s set blocked_at = null, passed = 0
   where s.stream = _{queue}_unblock.stream;
  if exists (select from {schema}.{queue}_stream s
              where s.stream = _{queue}_unblock.stream and s.owner_token is null) then
    perform {schema}._{queue}_release_streams(array[_{queue}_unblock.stream]);
  end if;
  perform {schema}._wake('{queue}');
end
$function$;

-- Streams that are leased or blocked, and those with a ticket among the first thousand of each
-- lane, with their first messages. `messages` is counted up to a thousand.
create view {schema}.{queue}_streams as
  select k.stream::text as stream,
         case when s.blocked_at is not null then 'blocked'
              when s.owner_token is not null then 'leased' else 'ready' end as state,
         f.id as head_id, f.topic::text as head_topic, f.attempts as head_attempts, f.last_error,
         f.ready_at as next_attempt_at, s.blocked_at, s.owner_token, s.lease_until,
         (select count(*) from (select from {schema}.{queue} o where o.stream = k.stream
                                 limit 1000) found) as messages
    from (select s.stream::text as stream from {schema}.{queue}_stream s
          union
          select t.stream::text from generate_series(15, 25) as lanes(lane)
           cross join lateral (select o.stream from {schema}.{queue} o where o.lane = lanes.lane
                                order by o.ready_at, o.id limit 1000) t) k
    left join {schema}.{queue}_stream s on s.stream = k.stream
    left join lateral (select o.id, o.topic, o.attempts, o.last_error, o.ready_at
                         from {schema}.{queue} o
                        where o.stream = k.stream order by o.seq limit 1) f on true;
comment on view {schema}.{queue}_streams is
  'Streams that are leased, blocked or ready, with their first messages.';
