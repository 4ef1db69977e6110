-- Settlements of messages whose streams are leased. {queue}_ack and the other functions call these
-- for the claims that are not leases of single messages.

-- Notes that messages of leased streams are settled, and ends the leases of streams without
-- unsettled messages. It is the last step of a settlement. If a lease has been lost meanwhile, the
-- whole settlement is undone, and the caller repeats it. topics: of the settled messages.
create function {schema}._{queue}_count_down(
  owner_token uuid, streams text[], epochs bigint[], settled integer[], topics text[] default null
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
     set unsettled = s.unsettled - u.settled
    from unnest(streams, epochs, settled) as u(stream, epoch, settled)
   where s.stream = u.stream and s.epoch = u.epoch
     and s.owner_token = _{queue}_count_down.owner_token and s.lease_until > {schema}.clock();
  get diagnostics v_count = row_count;
  if v_count < cardinality(streams) then
    raise exception 'the lease of a stream expired while a message was being settled'
      using errcode = 'serialization_failure';
  end if;
  v_ended := array(select s.stream::text from {schema}.{queue}_stream s
                    where s.stream = any (streams) and s.unsettled <= 0);
  if v_ended <> '{}' then
    perform {schema}._{queue}_release_streams(v_ended, topics);
  end if;
end
$function$;

-- Counts down for these messages, which are locked and still there. epochs: of their claims.
create function {schema}._{queue}_give_back(owner_token uuid, ids uuid[], epochs bigint[])
  returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
declare
  v_streams text[];
  v_epochs bigint[];
  v_settled integer[];
begin
  select array_agg(g.stream), array_agg(g.epoch), array_agg(g.settled)
    into v_streams, v_epochs, v_settled
    from (select o.stream::text as stream, min(u.epoch) as epoch, count(*)::integer as settled
            from unnest(ids, epochs) as u(id, epoch)
            join {schema}.{queue} o on o.id = u.id
           group by o.stream order by o.stream) g;
  if v_streams is not null then
    perform {schema}._{queue}_count_down(owner_token, v_streams, v_epochs, v_settled);
  end if;
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
  v_epochs bigint[];
  v_topics text[];
begin
  if keep then
    with gone as (
      delete from {schema}.{queue} o
       where o.id = any (ids)
         and ((o.id, (select s.epoch from {schema}.{queue}_stream s
                       where s.stream = o.stream and o.seq <= s.run_to
                         and s.owner_token = _{queue}_ack_streams.owner_token
                         and s.lease_until > v_now and o.claim_epoch <> s.epoch))
              in (select u.id, u.epoch from unnest(ids, epochs) as u(id, epoch))) is true
      returning o.*, (select s.epoch from {schema}.{queue}_stream s
                       where s.stream = o.stream) as epoch
    ),
    kept as (
      insert into {schema}.{queue}_archive (
               processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts,
               status, priority, id, processed_by, topic, correlation_id, unique_key, stream,
               headers, last_error, failures, payload, stages)
      select {schema}.clock(), g.created_at, g.epoch, g.due_at, g.expires_at, g.attempts,
             g.past_attempts, 2, g.priority, g.id, _{queue}_ack_streams.owner_token, g.topic,
             g.correlation_id, g.unique_key, g.stream, g.headers, g.last_error, g.failures,
             g.payload, g.stages
        from gone g
      on conflict (id) do update
         set processed_at = excluded.processed_at, claim_epoch = excluded.claim_epoch,
             attempts = excluded.attempts, status = excluded.status,
             processed_by = excluded.processed_by, last_error = excluded.last_error,
             failures = excluded.failures, stages = excluded.stages
    )
    select array_agg(g.id), array_agg(g.stream::text), array_agg(g.epoch),
           array_agg(distinct g.topic::text)
      into v_ids, v_streams, v_epochs, v_topics from gone g;
  else
    with gone as (
      delete from {schema}.{queue} o
       where o.id = any (ids)
         and ((o.id, (select s.epoch from {schema}.{queue}_stream s
                       where s.stream = o.stream and o.seq <= s.run_to
                         and s.owner_token = _{queue}_ack_streams.owner_token
                         and s.lease_until > v_now and o.claim_epoch <> s.epoch))
              in (select u.id, u.epoch from unnest(ids, epochs) as u(id, epoch))) is true
      returning o.id, o.stream, o.topic,
                (select s.epoch from {schema}.{queue}_stream s
                  where s.stream = o.stream) as epoch
    )
    select array_agg(g.id), array_agg(g.stream::text), array_agg(g.epoch),
           array_agg(distinct g.topic::text)
      into v_ids, v_streams, v_epochs, v_topics from gone g;
  end if;
  if v_ids is null then
    return 0;
  end if;
  perform {schema}._{queue}_ended(v_ids, 1);
  perform {schema}._{queue}_count_down(
    owner_token, array_agg(g.stream), array_agg(g.epoch), array_agg(g.settled), v_topics)
     from (select u.stream, u.epoch, count(*)::integer as settled
             from unnest(v_streams, v_epochs) as u(stream, epoch)
            group by u.stream, u.epoch order by u.stream) g;
  return cardinality(v_ids);
end
$function$;

-- What becomes of messages whose last attempt has failed, and of their streams:
--   block       the message keeps its place, and the stream waits for an operator
--   park        the message becomes a dead letter, and the stream continues
--   skip_order  the message leaves the stream and is retried beside it; its attempts start again
-- The messages are locked. epochs: of their claims. Returns the number of messages.
create function {schema}._{queue}_give_up(
  owner_token uuid, ids uuid[], epochs bigint[], error text, charge integer,
  on_stream_failure text
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_streams text[];
  v_epochs bigint[];
  v_settled integer[];
  -- Without a charge, the failures have the attempt already.
  v_kind text := case when charge > 0 then 'failed' end;
begin
  if on_stream_failure is null or on_stream_failure not in ('block', 'park', 'skip_order') then
    raise exception 'on_stream_failure must be block, park or skip_order'
      using errcode = 'invalid_parameter_value';
  elsif ids = '{}' then
    return 0;
  end if;
  select array_agg(g.stream), array_agg(g.epoch), array_agg(g.settled)
    into v_streams, v_epochs, v_settled
    from (select o.stream::text as stream, min(u.epoch) as epoch, count(*)::integer as settled
            from unnest(ids, epochs) as u(id, epoch)
            join {schema}.{queue} o on o.id = u.id
           group by o.stream order by o.stream) g;
  if on_stream_failure = 'park' then
    perform {schema}._{queue}_finish(
      array(select o.ctid from {schema}.{queue} o where o.id = any (ids)), 3::smallint, error,
      owner_token, charge);
  elsif on_stream_failure = 'skip_order' then
    update {schema}.{queue} o
       set stream = null, seq = null, lane = o.priority, lost_leases = 0,
           past_attempts = o.past_attempts + o.attempts + charge, attempts = 0,
           ready_at = {schema}.clock() + {schema}._queue_backoff(o.attempts + charge),
           last_error = coalesce(left(error, 2048), o.last_error),
           failures = {schema}._queue_failed(o.failures, o.past_attempts + o.attempts + charge,
                                             v_kind, error, _{queue}_give_up.owner_token)
     where o.id = any (ids);
  else
    update {schema}.{queue} o
       set lane = -102, attempts = o.attempts + charge, lost_leases = 0, claim_epoch = u.epoch,
           last_error = coalesce(left(error, 2048), o.last_error),
           failures = {schema}._queue_failed(o.failures, o.past_attempts + o.attempts + charge,
                                             v_kind, error, _{queue}_give_up.owner_token)
      from unnest(ids, epochs) as u(id, epoch)
     where o.id = u.id;
    update {schema}.{queue}_stream s set blocked_at = {schema}.clock()
     where s.stream = any (v_streams);
  end if;
  perform {schema}._{queue}_count_down(owner_token, v_streams, v_epochs, v_settled);
  return cardinality(ids);
end
$function$;

-- The claims of these rows, in the order of their ids.
create function {schema}._{queue}_claims_of(
  rows tid[], ids uuid[], epochs bigint[], out found_ids uuid[], out found_epochs bigint[]
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
begin
  select coalesce(array_agg(o.id order by o.id), '{}'),
         coalesce(array_agg(u.epoch order by o.id), '{}')
    into found_ids, found_epochs
    from (select distinct u.id, u.epoch from unnest(ids, epochs) as u(id, epoch)) u
    join {schema}.{queue} o on o.id = u.id
   where o.ctid = any (rows);
end
$function$;

-- {queue}_fail for messages of leased streams.
create function {schema}._{queue}_fail_streams(
  owner_token uuid, ids uuid[], epochs bigint[], error text, charge integer,
  on_stream_failure text
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return (
    select {schema}._{queue}_give_up(owner_token, c.found_ids, c.found_epochs, error, charge,
                                     on_stream_failure)
      from {schema}._{queue}_claims_of(
             {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs), ids, epochs) c);
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
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs);
  v_spent record;
  v_kept record;
begin
  select * into v_kept from {schema}._{queue}_claims_of(
    array(select o.ctid from {schema}.{queue} o
           where o.ctid = any (v_rows) and o.attempts + 1 < max_attempts), ids, epochs);
  select * into v_spent from {schema}._{queue}_claims_of(
    array(select o.ctid from {schema}.{queue} o
           where o.ctid = any (v_rows) and o.attempts + 1 >= max_attempts), ids, epochs);
  if v_kept.found_ids <> '{}' then
    update {schema}.{queue} o
       set attempts = o.attempts + 1, lost_leases = 0, claim_epoch = u.epoch,
           ready_at = {schema}.clock()
                      + coalesce(delay, {schema}._queue_backoff(o.attempts + 1)),
           last_error = coalesce(left(error, 2048), o.last_error),
           failures = {schema}._queue_failed(o.failures, o.past_attempts + o.attempts + 1,
                                             'failed', error, _{queue}_abandon_streams.owner_token)
      from unnest(v_kept.found_ids, v_kept.found_epochs) as u(id, epoch)
     where o.id = u.id;
    perform {schema}._{queue}_give_back(owner_token, v_kept.found_ids, v_kept.found_epochs);
  end if;
  return cardinality(v_kept.found_ids) + {schema}._{queue}_give_up(
    owner_token, v_spent.found_ids, v_spent.found_epochs, error, 1, on_stream_failure);
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
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs);
  v_claims record;
begin
  if v_rows = '{}' then
    return 0;
  end if;
  select * into v_claims from {schema}._{queue}_claims_of(v_rows, ids, epochs);
  update {schema}.{queue} o
     set claim_epoch = u.epoch, ready_at = coalesce({schema}.clock() + delay, o.ready_at)
    from unnest(v_claims.found_ids, v_claims.found_epochs) as u(id, epoch)
   where o.id = u.id;
  perform {schema}._{queue}_give_back(owner_token, v_claims.found_ids, v_claims.found_epochs);
  return cardinality(v_claims.found_ids);
end
$function$;

-- {queue}_renew for messages of leased streams. A claim may lock the row of a stream for a moment,
-- so that it is tried several times. Streams that a long transaction settles are skipped.
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
  v_wanted text[];
  v_streams text[];
begin
  v_wanted := array(
    select distinct s.stream::text
      from unnest(ids, epochs) as u(id, epoch)
      join {schema}.{queue} o on o.id = u.id
      join {schema}.{queue}_stream s on s.stream = o.stream and s.epoch = u.epoch
     where s.owner_token = _{queue}_renew_streams.owner_token
       and s.lease_until > {schema}.clock());
  for try in 1 .. 5 loop
    v_streams := array(select s.stream::text from {schema}.{queue}_stream s
                        where s.stream = any (v_wanted) order by s.stream for update skip locked);
    exit when cardinality(v_streams) = cardinality(v_wanted);
    perform pg_sleep(0.005);
  end loop;
  update {schema}.{queue}_stream s set lease_until = {schema}.clock() + lease
   where s.stream = any (v_streams) and s.owner_token = _{queue}_renew_streams.owner_token
     and s.lease_until > {schema}.clock();
  return query
  select o.id from unnest(ids, epochs) as u(id, epoch)
    join {schema}.{queue} o on o.id = u.id
    join {schema}.{queue}_stream s on s.stream = o.stream and s.epoch = u.epoch
   where s.stream::text in (select unnest(v_streams))
     and s.owner_token = _{queue}_renew_streams.owner_token
     and s.lease_until > {schema}.clock();
end
$function$;
