-- Operating the queue: counts, replay, purge, pause and resume.

-- Returns the time when the next waiting message comes due, or null if there is none within a day.
-- streams: of messages of streams, including streams whose leases end; otherwise of the others.
-- topics, except_topics: as for {queue}_claim. If the next hundred messages belong to other topics,
-- the time of the hundredth is returned; call again at that time.
create function {schema}.{queue}_next_due(topics text[] default null,
                                          except_topics text[] default null,
                                          streams boolean default false)
  returns timestamptz
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  return least(case when streams then (
      -- Not earlier than soon: a claim skips an expired lease whose row is locked.
      select greatest(s.lease_until, {schema}.clock() + interval '20 milliseconds')
        from {schema}.{queue}_stream s
       where s.owner_token is not null order by s.lease_until limit 1) end, (
    select min(next.ready_at)
      from generate_series(case when streams then 15 else -5 end,
                           case when streams then 25 else 5 end) as lanes(lane)
     cross join lateral (
             select coalesce(
                      min(f.ready_at) filter (
                        where (topics is null or f.topic = any (topics))
                          and (except_topics is null or f.topic <> all (except_topics))),
                      case count(*) when 100 then max(f.ready_at) end) as ready_at
               from (select o.ready_at, o.topic from {schema}.{queue} o
                      where o.lane = lanes.lane and o.ready_at > (select {schema}.clock())
                        and o.ready_at < (select {schema}.clock()) + interval '1 day'
                      order by o.ready_at
                      limit case when topics is null and except_topics is null
                                 then 1 else 100 end) f) next));
end
$function$;
comment on function {schema}.{queue}_next_due is
  'The time when the next message comes due, within a day.';

-- Internal. True if a stream is leased, or may be claimed now or later. It reads two indexes.
create function {schema}._{queue}_has_streams() returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  return exists (select from {schema}.{queue} o where o.lane >= 15)
      or exists (select from {schema}.{queue}_stream s where s.owner_token is not null);
end
$function$;

-- Returns the number of messages in each state, and how long the oldest claimable message has
-- waited. It counts up to `most`, so neither a long queue nor a large archive makes it slow. Only
-- the search for the oldest message has to pass all messages in progress.
create function {schema}.{queue}_counts(
  most bigint default 100000,
  out ready bigint, out scheduled bigint, out in_progress bigint, out done bigint,
  out failed bigint, out paused bigint,
  out oldest_due interval
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_later bigint;
  v_total bigint;
  v_leased bigint;
  v_runs boolean := exists (select from {schema}.{queue}_run);
begin
  select count(*) filter (where not due.leased), count(*) filter (where due.leased) into ready,
         in_progress
    from (select each.leased
            from generate_series(-5, 5) as lanes(lane)
           cross join lateral (
             select o.lease_until is not null
                    or (v_runs and o.claim_epoch = 0
                        and exists (select from {schema}.{queue}_run r
                                     where r.lane = o.lane
                                       and (o.ready_at, o.id) > (r.from_at, r.from_id)
                                       and (o.ready_at, o.id) <= (r.to_at, r.to_id))) as leased
               from {schema}.{queue} o
              where o.lane = lanes.lane and o.ready_at <= v_now limit most) each
           limit most) due;
  scheduled := (select count(*) from (
    select from generate_series(-5, 5) as lanes(lane)
     cross join lateral (select from {schema}.{queue} o
                          where o.lane = lanes.lane and o.ready_at > v_now limit most) each
     limit most) later);
  -- Messages of streams. Those behind a message that is not due yet count as ready.
  v_total := (select count(*) from (select from {schema}.{queue} o where o.stream is not null
                                       and o.lane is distinct from -100 limit most) found);
  if v_total > 0 then
    v_leased := coalesce((select sum(s.unsettled) from {schema}.{queue}_stream s), 0);
    v_later := (select count(*) from (
      select from generate_series(15, 25) as lanes(lane)
       cross join lateral (select from {schema}.{queue} o
                            where o.lane = lanes.lane and o.ready_at > v_now limit most) each
       limit most) later);
    ready := least(most, ready + greatest(v_total - v_leased - v_later, 0));
    in_progress := least(most, in_progress + v_leased);
    scheduled := least(most, scheduled + v_later);
  end if;
  done := (select count(*)
             from (select from {schema}.{queue}_archive where status = 2 limit most) kept);
  failed := (select count(*)
               from (select from {schema}.{queue}_archive where status = 3 limit most) dead);
  paused := (select count(*)
               from (select from {schema}.{queue} where lane = -100 limit most) parked);
  oldest_due := (
    select v_now - min(oldest.ready_at)
      from generate_series(-5, 25) as lanes(lane)
     cross join lateral (select o.ready_at from {schema}.{queue} o
                          where o.lane = lanes.lane and o.ready_at <= v_now
                            and o.lease_until is null
                            and not (v_runs and o.claim_epoch = 0
                                     and exists (select from {schema}.{queue}_run r
                                                  where r.lane = o.lane
                                                    and (o.ready_at, o.id) > (r.from_at, r.from_id)
                                                    and (o.ready_at, o.id) <= (r.to_at, r.to_id)))
                          order by o.ready_at limit 1) oldest);
end
$function$;
comment on function {schema}.{queue}_counts is
  'The number of messages in each state, up to a limit, and how long the oldest due one waits.';

-- Internal. Returns the topics with messages that have been due for at least `waiting` and that no
-- worker holds, among the first `look_at` messages of each lane. seen: the number of such messages.
-- oldest_wait: how long the oldest one has waited. Paused topics are left out.
create function {schema}._{queue}_due_topics(waiting interval, look_at integer)
  returns table (topic text, seen bigint, oldest_wait interval)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  return query
  select front.topic::text, count(*), v_now - min(front.ready_at)
    from generate_series(-5, 25) as lanes(lane)
   cross join lateral (select o.topic, o.ready_at, o.lease_until from {schema}.{queue} o
                        where o.lane = lanes.lane and o.ready_at <= v_now - waiting
                        order by o.ready_at, o.id limit look_at) front
   where (front.lease_until is null or front.lease_until <= v_now)
     and not exists (select from {schema}.{queue}_paused p where p.topic = front.topic)
   group by front.topic;
end
$function$;

-- Returns the newest ten failed attempts of a message, oldest first. attempt: the number of
-- attempts up to this one, including those before a replay. kind: failed, lost_lease (its lease
-- expired) or expired (the message expired; no attempt). error: up to 512 characters; the whole
-- last error is in the column last_error of {queue}_messages.
create function {schema}.{queue}_failures(message_id uuid)
  returns table (attempt integer, at timestamptz, kind text, error text, owner_token uuid)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return query
  select (f.entry->>'attempt')::integer,
         timestamptz 'epoch' + (f.entry->>'at')::bigint * interval '1 microsecond',
         f.entry->>'kind', f.entry->>'error', (f.entry->>'owner')::uuid
    from {schema}.{queue}_messages m
   cross join lateral jsonb_array_elements(m.failures) with ordinality as f(entry, place)
   where m.id = {queue}_failures.message_id
   order by f.place;
end
$function$;
comment on function {schema}.{queue}_failures is
  'The newest ten failed attempts of a message, oldest first.';

-- Makes up to `most` failed messages ready again, oldest first, with zero attempts. Their earlier
-- attempts are kept in past_attempts. A message of a stream goes to its end. Returns their number.
-- A message whose unique_key an unfinished message has taken stays failed.
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
       and (a.unique_key is null
            or not exists (select from {schema}.{queue} o where o.unique_key = a.unique_key))
     order by a.id
     limit most
     for update skip locked
  ),
  back as (
    insert into {schema}.{queue} (ready_at, created_at, claim_epoch, due_at, past_attempts, lane,
                                  priority, id, topic, correlation_id, unique_key, stream, seq,
                                  headers, last_error, failures, payload, stages)
    select {schema}.clock(), c.created_at, c.claim_epoch, c.due_at, c.past_attempts + c.attempts,
           c.priority + case when c.stream is null then 0 else 20 end, c.priority, c.id, c.topic,
           c.correlation_id, c.unique_key, c.stream,
           case when c.stream is not null then nextval('{schema}.{queue}_seq') end, c.headers,
           c.last_error, c.failures, c.payload, c.stages
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

-- Deletes up to `most` done (2) or failed (3) messages, oldest first. Returns their number. Each
-- argument that is not null is a filter.
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
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[];
begin
  if with_status is null or with_status not in (2, 3) then
    raise exception 'with_status must be 2 (done) or 3 (failed)'
      using errcode = 'invalid_parameter_value';
  elsif with_status = 2 and {queue}_purge.ids is null then
    v_rows := array(select a.ctid from {schema}.{queue}_archive a
                     where a.status = 2 and a.processed_at >= coalesce(finished_after, '-infinity')
                       and a.processed_at < coalesce(finished_before, 'infinity')
                       and (only_topic is null or a.topic = only_topic)
                     order by a.processed_at limit most for update skip locked);
  else
    v_rows := array(select a.ctid from {schema}.{queue}_archive a
                     where a.status = with_status
                       and a.processed_at >= coalesce(finished_after, '-infinity')
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

-- Pauses a topic: no claim takes its messages. Messages that are already claimed are not affected.
-- Returns false if the topic was paused before.
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

-- Returns up to `most` set-aside messages to the queue, of one topic or (null) of all topics, if
-- the topic is not paused. Returns their number. Claims set messages aside while their topic is
-- paused.
create function {schema}.{queue}_unpark(topic text default null, most integer default 1000)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_topics text[];
  v_count integer;
begin
  with recursive parked(topic) as (
    (select o.topic from {schema}.{queue} o where o.lane = -100 order by o.topic limit 1)
    union all
    select (select o.topic from {schema}.{queue} o where o.lane = -100 and o.topic > p.topic
             order by o.topic limit 1)
      from parked p where p.topic is not null
  )
  select array_agg(p.topic) into v_topics from parked p
   where p.topic is not null and ({queue}_unpark.topic is null or p.topic = {queue}_unpark.topic)
     and not exists (select from {schema}.{queue}_paused still where still.topic = p.topic);
  if v_topics is null then
    return 0;
  end if;
  update {schema}.{queue} o
     set lane = o.priority + case when o.stream is null then 0 else 20 end
   where o.ctid = any (array(select p.ctid from {schema}.{queue} p
                              where p.lane = -100 and p.topic = any (v_topics)
                              limit most for update skip locked));
  get diagnostics v_count = row_count;
  return v_count;
end
$function$;
comment on function {schema}.{queue}_unpark is
  'Puts messages of topics that are no longer paused back into the queue; returns how many.';

-- Resumes a topic. Returns whether it was paused. The first thousand set-aside messages return to
-- the queue at once. For more, call {queue}_unpark until it returns zero, or leave that to a
-- worker.
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
