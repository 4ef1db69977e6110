-- Storing messages and events.

-- Internal. The messages of a part whose streams of events are closed, by their places from 1. They
-- are not stored. Raises an error if an event has no stream.
create function {schema}._work_refused(messages jsonb) returns integer[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if exists (select from jsonb_array_elements(messages) as e
              where (e->>'is_event')::boolean and nullif(e->>'stream', '') is null) then
    raise exception 'a message with is_event needs a stream'
      using errcode = 'invalid_parameter_value';
  end if;
  return array(select m.place::integer
                 from jsonb_array_elements(messages) with ordinality as m(e, place)
                 join {schema}.event_stream s on s.key = m.e->>'stream'
                where (m.e->>'is_event')::boolean and s.closed_at is not null);
end
$function$;

-- Internal. Appends the messages with is_event to their streams, unless events with their ids
-- exist, and returns their ids. ids, at the place of each message: its id in the queue, or null if
-- it was not stored.
create function {schema}._work_append(messages jsonb, ids uuid[], notify boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_new record;
  v_streams text[];
  v_refused text;
begin
  select array_agg(ids[m.place] order by m.place) as ids,
         array_agg(m.e->>'stream' order by m.place) as streams,
         array_agg(m.e->>'topic' order by m.place) as types,
         array_agg(m.e->>'payload' order by m.place) as data,
         array_agg(nullif(m.e->'headers', 'null')::text order by m.place) as metadata,
         array_agg(nullif(m.e->>'correlation_id', '') order by m.place) as correlation_ids
    into v_new
    from jsonb_array_elements(messages) with ordinality as m(e, place)
   where (m.e->>'is_event')::boolean and ids[m.place] is not null
     and not exists (select from {schema}.event v where v.id = ids[m.place]);
  if v_new.ids is null then
    return '{}';
  end if;
  v_streams := array(select distinct u.stream from unnest(v_new.streams) as u(stream));
  select a.stream || ' ' || a.outcome into v_refused
    from {schema}.event_try_append_many(
           v_streams, array_fill(-1::bigint, array[cardinality(v_streams)]),
           array(select array_position(v_streams, u.stream)::bigint
                   from unnest(v_new.streams) with ordinality as u(stream, place)
                  order by u.place),
           v_new.types, v_new.data, v_new.metadata, v_new.ids, v_new.correlation_ids, null, true,
           notify) a
   where a.outcome <> 'appended' limit 1;
  if v_refused is not null then
    raise exception 'the stream of an event has changed: %', v_refused
      using errcode = 'serialization_failure';
  end if;
  return v_new.ids;
end
$function$;

-- Internal. Stores messages of the outbox, and their events. Returns {id, outcome} for each. fresh:
-- the ids were generated for this call, so none of them exists.
create function {schema}._outbox_work_store(messages jsonb, fresh boolean, notify boolean)
  returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_refused integer[] := {schema}._work_refused(messages);
  v_all record;
  v_places bigint[];
  v_existing uuid[];
  v_events uuid[];
  v_ids uuid[];
begin
  select array_agg(coalesce((m.e->>'id')::uuid, {schema}.uuid_v7()) order by m.place) as ids,
         array_agg(m.e->>'topic' order by m.place) as topics,
         array_agg(m.e->>'payload' order by m.place) as payloads,
         array_agg(m.e->>'correlation_id' order by m.place) as correlation_ids,
         array_agg({schema}._work_time(m.e->>'due_at') order by m.place) as due_at,
         array_agg(nullif(m.e->'headers', 'null')::text order by m.place) as headers,
         array_agg({schema}._work_time(m.e->>'expires_at') order by m.place) as expires_at,
         array_agg((m.e->>'priority')::bigint order by m.place) as priorities,
         array_agg(m.e->>'unique_key' order by m.place) as unique_keys,
         array_agg((m.e->>'delay_ms')::bigint * 1000 order by m.place) as delays,
         array_agg(m.e->>'stream' order by m.place) as streams, array_agg(m.place) as places,
         count(m.e->>'unique_key') as keys, count(m.e->>'delay_ms') as delayed,
         count(m.e->>'stream') as streamed
    into v_all
    from jsonb_array_elements(messages) with ordinality as m(e, place)
   where m.place <> all (v_refused);
  if v_all.ids is not null then
    select array_agg(n.place), array_agg(n.existing_id) into v_places, v_existing
      from {schema}.outbox_enqueue_many(
             v_all.ids, v_all.topics, v_all.payloads, v_all.correlation_ids, v_all.due_at,
             v_all.headers, v_all.expires_at, v_all.priorities,
             case when v_all.keys > 0 then v_all.unique_keys end, fresh, notify,
             case when v_all.delayed > 0 then v_all.delays end,
             case when v_all.streamed > 0 then v_all.streams end) n;
  end if;
  -- By the places in `messages`.
  v_ids := array(
    select case when r.place is null and n.place is null then v_all.ids[k.place] end
      from generate_series(1, jsonb_array_length(messages)) as p(place)
      left join unnest(v_refused) as r(place) on r.place = p.place
      left join unnest(v_all.places) with ordinality as k(at, place) on k.at = p.place
      left join unnest(v_places) as n(place) on n.place = k.place
     order by p.place);
  v_events := {schema}._work_append(messages, v_ids, notify);
  if v_events <> '{}' then
    update {schema}.outbox o set stages = (o.stages | 2)::smallint where o.id = any (v_events);
  end if;
  return (
    select jsonb_agg(jsonb_build_object(
             'id', coalesce(v_ids[p.place], x.id),
             'outcome', case when v_ids[p.place] is not null then 'stored'
                             when p.place = any (v_refused) then 'stream_closed'
                             else 'duplicate' end) order by p.place)
      from generate_series(1, jsonb_array_length(messages)) as p(place)
      left join unnest(v_all.places) with ordinality as k(at, place) on k.at = p.place
      left join unnest(v_places, v_existing) as x(place, id) on x.place = k.place);
end
$function$;

-- Internal. Stores messages of the inbox, each once per source and message id, and their events.
-- Returns {id, outcome} for each. Messages without streams are stored in the order of their keys,
-- so that two calls do not deadlock.
create function {schema}._inbox_work_store(messages jsonb, notify boolean) returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_refused integer[] := {schema}._work_refused(messages);
  v_sorted boolean := not exists (select from jsonb_array_elements(messages) as e
                                   where e ? 'stream');
  v_each record;
  v_one record;
  v_ids uuid[] := array_fill(null::uuid, array[jsonb_array_length(messages)]);
  v_answers jsonb[] := array_fill(null::jsonb, array[jsonb_array_length(messages)]);
  v_events uuid[];
begin
  for v_each in
    select m.e, m.place::integer as place
      from jsonb_array_elements(messages) with ordinality as m(e, place)
     order by case when v_sorted then m.e->>'source' end collate "C",
              case when v_sorted then m.e->>'message_id' end collate "C", m.place
  loop
    if v_each.place = any (v_refused) then
      v_answers[v_each.place] := jsonb_build_object('id', null, 'outcome', 'stream_closed');
      continue;
    end if;
    select i.outcome, i.id into v_one
      from {schema}.inbox_enqueue(
             topic => v_each.e->>'topic', source => v_each.e->>'source',
             message_id => v_each.e->>'message_id', payload => v_each.e->>'payload',
             hash => decode(v_each.e->>'hash', 'hex'),
             correlation_id => v_each.e->>'correlation_id',
             due_at => {schema}._work_time(v_each.e->>'due_at'),
             headers => nullif(v_each.e->'headers', 'null'),
             expires_at => {schema}._work_time(v_each.e->>'expires_at'),
             priority => coalesce((v_each.e->>'priority')::integer, 0),
             item_id => (v_each.e->>'id')::uuid, notify => notify,
             stream => v_each.e->>'stream') i;
    if v_one.outcome = 'stored' then
      v_ids[v_each.place] := v_one.id;
    end if;
    v_answers[v_each.place] := jsonb_build_object('id', v_one.id, 'outcome', v_one.outcome);
  end loop;
  v_events := {schema}._work_append(messages, v_ids, notify);
  if v_events <> '{}' then
    update {schema}.inbox o set stages = (o.stages | 2)::smallint where o.id = any (v_events);
  end if;
  return to_jsonb(v_answers);
end
$function$;
