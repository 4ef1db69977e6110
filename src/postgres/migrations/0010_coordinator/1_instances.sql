-- compatible-with: 9
-- The work coordinator: one call that reports results, stores messages and events, renews leases
-- and claims work. It is built from the functions of the queues.

-- Instances that claim work have a row in the table of instances, with the time after which they
-- are stale. For other instances it is null.
alter table {schema}.instance add column stale_after interval;

create or replace view {schema}.instances as
  select instance_id, host, pid, version, started_at, heartbeat_at, state,
         heartbeat_at < {schema}.clock() - coalesce(stale_after, interval '90 seconds') as stale,
         array(select jsonb_object_keys(handlers) order by 1) as queues, handlers,
         stale_after is not null as claims_work
    from {schema}.instance;

-- Internal. Renews the heartbeat of an instance when a ninth of its stale_after has passed, so that
-- most calls write nothing. joins: inserts the row if it is missing.
create function {schema}._work_beat(batch jsonb, joins boolean) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_id uuid := (batch->>'instance')::uuid;
  v_now timestamptz := {schema}.clock();
  v_stale interval := {schema}._work_ms(batch, 'stale_after_ms', 90000);
  v_row record;
  v_handlers jsonb;
begin
  select i.heartbeat_at, i.stale_after, i.handlers into v_row from {schema}.instance i
   where i.instance_id = v_id;
  v_handlers := coalesce(v_row.handlers, '{}');
  if joins then
    select v_handlers || jsonb_object_agg(q.name, jsonb_build_object('topics', t.topics,
                                                    'all_topics', t.topics = '[]'))
      into v_handlers
      from unnest(array['outbox', 'inbox']) as q(name)
     cross join lateral (
       select coalesce(jsonb_agg(distinct e.topic order by e.topic), '[]') as topics
         from jsonb_array_elements_text(batch->q.name->'claim'->'topics') as e(topic)) t
     where batch->q.name ? 'claim'
       and not coalesce((batch->q.name->'claim'->>'stored_only')::boolean, false);
  end if;
  -- A claim of stored messages only makes a row, too, so that its leases expire if it dies. Without
  -- handlers it has no share.
  if v_row.heartbeat_at is null and not joins
     and not coalesce(batch->'outbox' ? 'claim' or batch->'inbox' ? 'claim', false) then
    return;
  elsif v_row.heartbeat_at >= v_now - v_stale / 9 and v_row.stale_after = v_stale
        and v_row.handlers = v_handlers then
    return;
  end if;
  insert into {schema}.instance as i (instance_id, host, pid, version, handlers, state, started_at,
                                      heartbeat_at, stale_after)
  values (v_id, coalesce(batch->>'host', ''), coalesce((batch->>'pid')::bigint, 0),
          coalesce(batch->>'version', ''), v_handlers, 'running', v_now, v_now, v_stale)
  on conflict (instance_id) do update
     set heartbeat_at = excluded.heartbeat_at, stale_after = excluded.stale_after,
         handlers = excluded.handlers;
end
$function$;

-- Internal. The number of live instances that claim the same topics of a queue as this one, and how
-- many of them come before it.
create function {schema}._work_share(instance uuid, queue text, out live integer, out rank integer)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  select count(*), count(*) filter (where i.instance_id < instance) into live, rank
    from {schema}.instance i
   where i.heartbeat_at >= {schema}.clock() - i.stale_after
     and i.handlers->queue = (select m.handlers->queue from {schema}.instance m
                               where m.instance_id = instance);
  live := greatest(live, 1);
end
$function$;

-- Internal. Removes instances that are stale, and lets their leases expire. Returns their number.
-- Searching for the leases reads the queues, but an instance is removed only once.
create function {schema}._work_remove_stale(instance uuid) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_gone uuid[];
begin
  if not exists (select from {schema}.instance i
                  where i.heartbeat_at < {schema}.clock() - i.stale_after
                    and i.instance_id <> instance) then
    return 0;
  end if;
  with stale as materialized (
    select i.instance_id from {schema}.instance i
     where i.heartbeat_at < {schema}.clock() - i.stale_after and i.instance_id <> instance
     order by i.instance_id for update skip locked
  ),
  gone as (
    delete from {schema}.instance i using stale s where i.instance_id = s.instance_id
    returning i.instance_id
  )
  select array_agg(g.instance_id) into v_gone from gone g;
  if v_gone is null then
    return 0;
  end if;
  perform {schema}._outbox_expire_leases(v_gone), {schema}._inbox_expire_leases(v_gone);
  return cardinality(v_gone);
end
$function$;

-- Internal. A duration of the batch, in milliseconds.
create function {schema}._work_ms(batch jsonb, name text, fallback bigint) returns interval
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_ms bigint := coalesce((batch->>name)::bigint, fallback);
begin
  if v_ms < 1 then
    raise exception '% must be at least 1', name using errcode = 'invalid_parameter_value';
  end if;
  return v_ms * interval '1 millisecond';
end
$function$;

-- Internal. A time as microseconds since 1970.
create function {schema}._work_micros(at timestamptz) returns bigint
  language sql immutable parallel safe
  return (extract(epoch from at) * 1000000)::bigint;

-- Internal. A time of the batch, which is given in microseconds since 1970.
create function {schema}._work_time(micros text) returns timestamptz
  language sql immutable parallel safe
  return timestamptz 'epoch' + micros::bigint * interval '1 microsecond';

-- Removes an instance. Others take over its share of the partitions at once. Its leases stay until
-- they are settled or expire. Returns whether it was there.
create function {schema}.work_leave(instance uuid) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  delete from {schema}.instance i where i.instance_id = instance and i.stale_after is not null;
  return found;
end
$function$;
comment on function {schema}.work_leave is
  'Removes an instance of the work coordinator; others take over its partitions.';

-- template: work_1 queue=outbox

-- template: work_1 queue=inbox
