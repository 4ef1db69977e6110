-- Settlements of messages whose streams are leased. {queue}_ack and the other functions call these
-- for the claims that are not leases of single messages.

-- The rows of these claims whose streams are this owner's, with this epoch, within their leases.
-- They are locked in the order of their ids.
create function {schema}._{queue}_lock_stream_claims(
  owner_token uuid, ids uuid[], epochs bigint[], wait boolean default true
) returns tid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  if wait then
    return array(
      select o.ctid from (select distinct u.id, u.epoch from unnest(ids, epochs) as u(id, epoch)) c
        join {schema}.{queue} o on o.id = c.id
        join {schema}.{queue}_stream s on s.stream = o.stream and s.epoch = c.epoch
       where s.owner_token = _{queue}_lock_stream_claims.owner_token and s.lease_until > v_now
         and o.seq <= s.run_to
       order by o.id
         for update of o);
  end if;
  return array(
    select o.ctid from (select distinct u.id, u.epoch from unnest(ids, epochs) as u(id, epoch)) c
      join {schema}.{queue} o on o.id = c.id
      join {schema}.{queue}_stream s on s.stream = o.stream and s.epoch = c.epoch
     where s.owner_token = _{queue}_lock_stream_claims.owner_token and s.lease_until > v_now
       and o.seq <= s.run_to
     order by o.id
       for update of o skip locked);
end
$function$;

-- Notes that messages of leased streams are settled, and ends the leases of streams without
-- unsettled messages. It is the last step of a settlement. If a lease has been lost meanwhile, the
-- whole settlement is undone, and the caller repeats it.
--
-- passed: the highest number that was acked in each stream; null: none.
create function {schema}._{queue}_count_down(
  owner_token uuid, streams text[], settled integer[], passed bigint[]
) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_count integer;
  v_ended text[];
begin
  perform from {schema}.{queue}_stream s where s.stream = any (streams) order by s.stream
     for update;
  update {schema}.{queue}_stream s
     set unsettled = s.unsettled - u.settled,
         passed = greatest(s.passed, u.passed)
    from unnest(streams, settled, _{queue}_count_down.passed) as u(stream, settled, passed)
   where s.stream = u.stream and s.owner_token = _{queue}_count_down.owner_token
     and s.lease_until > {schema}.clock();
  get diagnostics v_count = row_count;
  if v_count < cardinality(streams) then
    raise exception 'the lease of a stream ran out while a message was being settled'
      using errcode = 'serialization_failure';
  end if;
  v_ended := array(select s.stream::text from {schema}.{queue}_stream s
                    where s.stream = any (streams) and s.unsettled <= 0);
  if v_ended <> '{}' then
    perform {schema}._{queue}_release_streams(v_ended);
  end if;
end
$function$;

-- As _count_down, for rows that are locked and still there. Their streams continue with them.
create function {schema}._{queue}_give_back(owner_token uuid, rows tid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_indexscan = off
as $function$
declare
  v_streams text[];
  v_settled integer[];
  v_first bigint[];
begin
  select array_agg(g.stream), array_agg(g.settled), array_agg(g.first)
    into v_streams, v_settled, v_first
    from (select o.stream::text as stream, count(*)::integer as settled, min(o.seq) as first
            from {schema}.{queue} o where o.ctid = any (rows)
           group by o.stream order by o.stream) g;
  if v_streams is null then
    return;
  end if;
  perform {schema}._{queue}_lower(v_streams, v_first);
  perform {schema}._{queue}_count_down(owner_token, v_streams, v_settled, null);
end
$function$;

-- Messages that stay keep the mark of their stream below them.
create function {schema}._{queue}_lower(streams text[], first bigint[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
begin
  perform from {schema}.{queue}_stream s where s.stream = any (streams) order by s.stream
     for update;
  update {schema}.{queue}_stream s set passed = u.first - 1
    from unnest(streams, first) as u(stream, first)
   where s.stream = u.stream and s.passed >= u.first;
end
$function$;

-- {queue}_ack for messages of leased streams.
create function {schema}._{queue}_ack_streams(
  owner_token uuid, ids uuid[], epochs bigint[], keep boolean
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_ids uuid[];
  v_streams text[];
  v_seqs bigint[];
begin
  if keep then
    with gone as (
      delete from {schema}.{queue} o
       using unnest(ids, epochs) as u(id, epoch), {schema}.{queue}_stream s
       where o.id = u.id and s.stream = o.stream and s.epoch = u.epoch and o.seq <= s.run_to
         and s.owner_token = _{queue}_ack_streams.owner_token and s.lease_until > v_now
      returning o.*, s.epoch
    ),
    kept as (
      insert into {schema}.{queue}_archive (
               processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts,
               status, priority, id, processed_by, topic, correlation_id, unique_key, stream,
               headers, last_error, payload)
      select {schema}.clock(), g.created_at, g.epoch, g.due_at, g.expires_at, g.attempts,
             g.past_attempts, 2, g.priority, g.id, _{queue}_ack_streams.owner_token, g.topic,
             g.correlation_id, g.unique_key, g.stream, g.headers, g.last_error, g.payload
        from gone g
      on conflict (id) do update
         set processed_at = excluded.processed_at, claim_epoch = excluded.claim_epoch,
             attempts = excluded.attempts, status = excluded.status,
             processed_by = excluded.processed_by, last_error = excluded.last_error
    )
    select array_agg(g.id), array_agg(g.stream::text), array_agg(g.seq)
      into v_ids, v_streams, v_seqs from gone g;
  else
    with gone as (
      delete from {schema}.{queue} o
       using unnest(ids, epochs) as u(id, epoch), {schema}.{queue}_stream s
       where o.id = u.id and s.stream = o.stream and s.epoch = u.epoch and o.seq <= s.run_to
         and s.owner_token = _{queue}_ack_streams.owner_token and s.lease_until > v_now
      returning o.id, o.stream, o.seq
    )
    select array_agg(g.id), array_agg(g.stream::text), array_agg(g.seq)
      into v_ids, v_streams, v_seqs from gone g;
  end if;
  if v_ids is null then
    return 0;
  end if;
  perform {schema}._{queue}_ended(v_ids, 1);
  perform {schema}._{queue}_count_down(
    owner_token, array_agg(g.stream), array_agg(g.settled), array_agg(g.passed))
     from (select u.stream, count(*)::integer as settled, max(u.seq) as passed
             from unnest(v_streams, v_seqs) as u(stream, seq)
            group by u.stream order by u.stream) g;
  return cardinality(v_ids);
end
$function$;

-- What becomes of messages whose last attempt has failed, and of their streams:
--   block       the message keeps its place, and the stream waits for an operator
--   park        the message becomes a dead letter, and the stream continues
--   skip_order  the message leaves the stream and is retried beside it; its attempts start again
-- The rows are locked. Returns the number of messages.
create function {schema}._{queue}_give_up(
  owner_token uuid, rows tid[], error text, charge integer, on_stream_failure text
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_streams text[];
  v_settled integer[];
begin
  if rows = '{}' then
    return 0;
  end if;
  select array_agg(g.stream), array_agg(g.settled) into v_streams, v_settled
    from (select o.stream::text as stream, count(*)::integer as settled
            from {schema}.{queue} o where o.ctid = any (rows)
           group by o.stream order by o.stream) g;
  if on_stream_failure = 'park' then
    perform {schema}._{queue}_finish(rows, 3::smallint, error, owner_token, charge);
    perform {schema}._{queue}_count_down(owner_token, v_streams, v_settled, null);
  elsif on_stream_failure = 'skip_order' then
    update {schema}.{queue} o
       set stream = null, seq = null, lane = o.priority, lost_leases = 0,
           past_attempts = o.past_attempts + o.attempts + charge, attempts = 0,
           ready_at = {schema}.clock() + {schema}._queue_backoff(o.attempts + charge),
           last_error = coalesce(left(error, 2048), o.last_error)
     where o.ctid = any (rows);
    perform {schema}._{queue}_count_down(owner_token, v_streams, v_settled, null);
  else
    update {schema}.{queue}_stream s set blocked_at = {schema}.clock()
     where s.stream = any (v_streams);
    update {schema}.{queue} o
       set lane = -102, attempts = o.attempts + charge, lost_leases = 0,
           last_error = coalesce(left(error, 2048), o.last_error)
     where o.ctid = any (rows);
    perform {schema}._{queue}_lower(v_streams, array(
      select min(o.seq) from {schema}.{queue} o
       where o.stream = any (v_streams) and o.lane = -102 group by o.stream order by o.stream));
    perform {schema}._{queue}_count_down(owner_token, v_streams, v_settled, null);
  end if;
  return cardinality(rows);
end
$function$;

-- {queue}_abandon for messages of leased streams: each keeps its place, and its stream waits for
-- its next attempt.
create function {schema}._{queue}_abandon_streams(
  owner_token uuid, ids uuid[], epochs bigint[], error text, delay interval,
  max_attempts integer, on_stream_failure text
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs);
  v_kept uuid[];
  v_count integer;
begin
  v_kept := array(select o.id from {schema}.{queue} o
                   where o.ctid = any (v_rows) and o.attempts + 1 < max_attempts);
  v_count := {schema}._{queue}_give_up(
    owner_token,
    array(select o.ctid from {schema}.{queue} o
           where o.ctid = any (v_rows) and o.attempts + 1 >= max_attempts),
    error, 1, on_stream_failure);
  if v_kept <> '{}' then
    update {schema}.{queue} o
       set attempts = o.attempts + 1, lost_leases = 0,
           ready_at = {schema}.clock()
                      + coalesce(delay, {schema}._queue_backoff(o.attempts + 1)),
           last_error = coalesce(left(error, 2048), o.last_error)
     where o.id = any (v_kept);
    perform {schema}._{queue}_give_back(
      owner_token, array(select o.ctid from {schema}.{queue} o where o.id = any (v_kept)));
  end if;
  return v_count + cardinality(v_kept);
end
$function$;

-- {queue}_snooze for messages of leased streams.
create function {schema}._{queue}_snooze_streams(
  owner_token uuid, ids uuid[], epochs bigint[], delay interval
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs);
  v_ids uuid[];
begin
  if v_rows = '{}' then
    return 0;
  end if;
  if delay is not null then
    v_ids := array(select o.id from {schema}.{queue} o where o.ctid = any (v_rows));
    update {schema}.{queue} o set ready_at = {schema}.clock() + delay where o.ctid = any (v_rows);
    v_rows := array(select o.ctid from {schema}.{queue} o where o.id = any (v_ids));
  end if;
  perform {schema}._{queue}_give_back(owner_token, v_rows);
  return cardinality(v_rows);
end
$function$;

-- {queue}_renew for messages of leased streams. Streams that are being settled are skipped.
create function {schema}._{queue}_renew_streams(
  owner_token uuid, ids uuid[], epochs bigint[], lease interval
) returns setof uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_streams text[];
begin
  v_streams := array(
    select s.stream::text
      from unnest(ids, epochs) as u(id, epoch)
      join {schema}.{queue} o on o.id = u.id
      join {schema}.{queue}_stream s on s.stream = o.stream and s.epoch = u.epoch
     where s.owner_token = _{queue}_renew_streams.owner_token
       and s.lease_until > {schema}.clock()
       for update of s skip locked);
  update {schema}.{queue}_stream s set lease_until = {schema}.clock() + lease
   where s.stream = any (v_streams) and s.owner_token = _{queue}_renew_streams.owner_token
     and s.lease_until > {schema}.clock();
  return query
  select o.id from unnest(ids) as u(id) join {schema}.{queue} o on o.id = u.id
   where o.stream = any (v_streams);
end
$function$;

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
