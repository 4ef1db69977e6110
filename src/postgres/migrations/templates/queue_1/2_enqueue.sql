-- Storing messages in the queue.

-- Internal. Deletes a message whose id is in the archive, and returns whether it was. It runs with
-- the rights of the owner of the schema, because a role that may only enqueue cannot delete.
create function {schema}._{queue}_drop_known(id uuid) returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  if not exists (select from {schema}.{queue}_archive a where a.id = _{queue}_drop_known.id) then
    return false;
  end if;
  delete from {schema}.{queue} o where o.id = _{queue}_drop_known.id;
  return true;
end
$function$;

-- Stores a message. Returns its id and whether it was stored. It is not stored if its message_id
-- exists, also in the archive, or if an unfinished message has its unique_key. Then the id of the
-- existing message is returned.
--
-- stream: messages of one stream are handled in order; see {queue}_claim_streams.
-- delay: an alternative to due_at; it counts from now by the clock of the database. notify: wakes
-- waiting workers when the transaction commits, unless another message of the last second is still
-- waiting. NOTIFY makes concurrent commits wait for each other. Switch it off if you enqueue
-- thousands of messages a second; workers poll anyway.
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
  stream         text        default null,
  out id         uuid,
  out stored     boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_id uuid := coalesce(message_id, {schema}.uuid_v7());
  v_now timestamptz := {schema}.clock();
  v_key text := nullif(unique_key, '');
  v_due timestamptz := coalesce(due_at, v_now + delay);
  v_stream text := nullif(stream, '');
  v_lane integer := priority + case when v_stream is null then 0 else 20 end;
begin
  perform {schema}._queue_check(topic, payload, correlation_id, headers, priority, unique_key);
  if due_at is not null and delay is not null then
    raise exception 'due_at and delay exclude each other' using errcode = 'invalid_parameter_value';
  elsif delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  elsif char_length(v_stream) > 255 then
    raise exception 'stream must not exceed 255 characters'
      using errcode = 'invalid_parameter_value';
  elsif not isfinite(due_at) or not isfinite(expires_at) then
    raise exception 'due_at and expires_at must be finite'
      using errcode = 'invalid_parameter_value';
  end if;
  for try in 1 .. 100 loop
    insert into {schema}.{queue} (id, topic, payload, correlation_id, due_at, ready_at, created_at,
                                  headers, expires_at, lane, priority, unique_key, stream, seq)
    values (v_id, {queue}_try_enqueue.topic, {queue}_try_enqueue.payload,
            nullif({queue}_try_enqueue.correlation_id, ''), v_due, greatest(v_due, v_now), v_now,
            {queue}_try_enqueue.headers, {queue}_try_enqueue.expires_at,
            v_lane, {queue}_try_enqueue.priority, v_key, v_stream,
            case when v_stream is not null then nextval('{schema}.{queue}_seq') end)
    on conflict do nothing;
    if found then
      -- Search the archive after the insert. If the message finished just before the insert, its
      -- row has left the queue, and the insert found no conflict.
      if message_id is not null and {schema}._{queue}_drop_known(v_id) then
        id := v_id;
        stored := false;
        return;
      end if;
      if notify and coalesce(v_due, v_now) <= v_now + interval '1 minute' and not exists (
           select from {schema}.{queue} o
            where o.lane = v_lane
              and o.ready_at between v_now - interval '1 second' and v_now
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
    -- The conflicting message has finished since. Try again.
  end loop;
  raise exception 'message % met a new conflict in each of a hundred attempts', v_id
    using errcode = 'lock_not_available';
end
$function$;
comment on function {schema}.{queue}_try_enqueue is
  'Stores a message unless its id or unique_key exists; returns its id and whether it was stored.';

-- Stores many messages. Returns the places (from 1) of the messages that were not stored, each with
-- the id of the existing message. An array may be null if no message uses the column. delays:
-- microseconds from now, an alternative to due_at. fresh: the ids were generated for this call, so
-- none of them exists.
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
  delays          bigint[]      default null,
  streams         text[]        default null
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
                      from unnest(due_at, delays) with ordinality as u(at, delay, place)
                      order by u.place);
  end if;
  if fresh and coalesce(unique_keys, correlation_ids, headers) is null and due_at is null
     and {queue}_enqueue_many.expires_at is null and priorities is null and streams is null then
    -- The usual case: messages with a topic and a payload only. unnest in the select list needs no
    -- memory for all of its rows.
    insert into {schema}.{queue} (id, topic, payload, ready_at, created_at)
    select unnest(ids), unnest(topics), unnest(payloads), v_now, v_now;
    return;
  elsif fresh and unique_keys is null and streams is not null then
    perform {schema}._{queue}_enqueue_streams(ids, topics, payloads, correlation_ids,
      {queue}_enqueue_many.due_at, {queue}_enqueue_many.headers, {queue}_enqueue_many.expires_at,
      priorities, streams);
    return;
  elsif fresh and unique_keys is null then
    insert into {schema}.{queue} (id, topic, payload, correlation_id, due_at, ready_at, created_at,
                                  headers, expires_at, lane, priority)
    select w.id, w.topic, w.payload, nullif(w.correlation_id, ''), w.due_at,
           greatest(w.due_at, v_now), v_now, w.headers::jsonb, w.expires_at,
           coalesce(w.priority, 0), coalesce(w.priority, 0)
      from unnest(ids, topics, payloads, correlation_ids, {queue}_enqueue_many.due_at,
                  {queue}_enqueue_many.headers, {queue}_enqueue_many.expires_at, priorities)
           as w(id, topic, payload, correlation_id, due_at, headers, expires_at, priority);
    return;
  end if;
  return query
  select w.place, e.id
    from unnest(ids, topics, payloads, correlation_ids, {queue}_enqueue_many.due_at,
                {queue}_enqueue_many.headers, {queue}_enqueue_many.expires_at, priorities,
                unique_keys, streams) with ordinality
         as w(id, topic, payload, correlation_id, due_at, headers, expires_at, priority, unique_key,
              stream, place)
   cross join lateral {schema}.{queue}_try_enqueue(
           w.topic, w.payload, w.id, w.correlation_id, w.due_at, w.headers::jsonb, w.expires_at,
           coalesce(w.priority, 0)::integer, w.unique_key, false, null, w.stream) e
   where not e.stored
   order by w.place;
end
$function$;
comment on function {schema}.{queue}_enqueue_many is
  'Stores many messages; returns the places of those not stored, and the existing ids.';

-- Internal. {queue}_enqueue_many for fresh messages, some of them of streams. They get their
-- numbers in the order of the arrays. The first message of each stream is a ticket; see
-- 7_streams.sql.
create function {schema}._{queue}_enqueue_streams(
  ids uuid[], topics text[], payloads text[], correlation_ids text[], due_at timestamptz[],
  headers text[], expires_at timestamptz[], priorities bigint[], streams text[]
) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_now timestamptz := {schema}.clock();
begin
  insert into {schema}.{queue} (id, topic, payload, correlation_id, due_at, ready_at, created_at,
                                headers, expires_at, lane, priority, stream, seq)
  select w.id, w.topic, w.payload, w.correlation_id, w.due_at, greatest(w.due_at, v_now), v_now,
         w.headers, w.expires_at,
         case when w.stream is null then w.priority when w.nth = 1 then w.priority + 20 end,
         w.priority, w.stream,
         case when w.stream is not null then nextval('{schema}.{queue}_seq') end
    from (select u.id, u.topic, u.payload, nullif(u.correlation_id, '') as correlation_id,
                 u.due_at, u.headers::jsonb as headers, u.expires_at,
                 coalesce(u.priority, 0) as priority, nullif(u.stream, '') as stream,
                 row_number() over (partition by nullif(u.stream, '') order by u.place) as nth
            from unnest(ids, topics, payloads, correlation_ids, _{queue}_enqueue_streams.due_at,
                        _{queue}_enqueue_streams.headers, _{queue}_enqueue_streams.expires_at,
                        priorities, streams) with ordinality
                 as u(id, topic, payload, correlation_id, due_at, headers, expires_at, priority,
                      stream, place)
           order by u.place) w;
end
$function$;

-- Creates the functions that call the hooks of the queue. No hooks are registered yet.
do $block$
begin
  perform {schema}._queue_link_hooks('{queue}');
end
$block$;
