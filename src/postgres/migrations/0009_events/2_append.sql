-- Appending events. A transaction locks the rows of its streams, one call in the order of the keys.
-- Across components, streams of events are locked after messages, joins, members, and streams of
-- messages.

-- Internal. Checks the arguments of an append.
create function {schema}._event_check(types text[], data text[], metadata text[], ids uuid[],
                                      correlation_ids text[], causation_ids text[]) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_count integer := cardinality(types);
begin
  if coalesce(v_count, 0) = 0 then
    raise exception 'an append needs at least one event' using errcode = 'invalid_parameter_value';
  elsif cardinality(data) is distinct from v_count
        or coalesce(cardinality(metadata), v_count) <> v_count
        or coalesce(cardinality(ids), v_count) <> v_count
        or coalesce(cardinality(correlation_ids), v_count) <> v_count
        or coalesce(cardinality(causation_ids), v_count) <> v_count then
    raise exception 'the arrays of an append must have the same length'
      using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- Internal. Locks the row of a stream. Creates a missing row if `creates` is true.
create function {schema}._event_lock(stream text, creates boolean) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  loop
    perform from {schema}.event_stream s where s.key = stream for no key update;
    exit when found or not creates;
    insert into {schema}.event_stream (key) values (stream)
    on conflict on constraint event_stream_key do nothing;
    exit when found;
  end loop;
end
$function$;

-- Appends events to a stream, or says why not.
--
-- expected: n >= 1: the stream is at version n; 0: it has no events; -1: any version; -2: it
-- exists. outcome: 'appended'; 'repeated', if these ids were appended before (an append in doubt);
-- 'conflict', if the stream is at another version; 'closed'; 'duplicate', if some of the ids belong
-- to other events. version: of the last event of this append, or the version of the stream. Only
-- 'appended' has written something.
--
-- fresh: the ids are new, so that the search for them is left out. notify: wakes subscriptions when
-- the transaction commits; NOTIFY makes concurrent commits wait for each other.
create function {schema}.event_try_append(
  stream          text,
  expected        bigint,
  types           text[],
  data            text[],
  metadata        text[]  default null,
  ids             uuid[]  default null,
  correlation_ids text[]  default null,
  causation_ids   text[]  default null,
  fresh           boolean default false,
  notify          boolean default true,
  out outcome     text,
  out version     bigint
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_variable
declare
  v_count bigint := cardinality(types);
  v_no bigint;
  v_closed timestamptz;
  v_last bigint;
begin
  if v_count is distinct from 1 or cardinality(data) is distinct from 1
     or coalesce(cardinality(metadata), 1) <> 1 or coalesce(cardinality(ids), 1) <> 1
     or coalesce(cardinality(correlation_ids), 1) <> 1
     or coalesce(cardinality(causation_ids), 1) <> 1 then
    perform {schema}._event_check(types, data, metadata, ids, correlation_ids, causation_ids);
  end if;
  if expected is null or expected < -2 then
    raise exception 'expected must be -2 or more' using errcode = 'invalid_parameter_value';
  end if;
  if ids is not null and not fresh then
    perform {schema}._event_lock(stream, expected in (0, -1));
    select max(e.version) into v_last from {schema}.event e
     where e.id = any (ids) and e.key = stream having count(*) = v_count;
    if v_last is not null then
      outcome := 'repeated';
      version := v_last;
      return;
    elsif exists (select from {schema}.event e where e.id = any (ids)) then
      outcome := 'duplicate';
      version := 0;
      return;
    end if;
  end if;
  update {schema}.event_stream s set version = s.version + v_count
   where s.key = stream and s.closed_at is null
     and case expected when -1 then true when -2 then s.version > 0 else s.version = expected end
  returning s.no, s.version into v_no, version;
  if v_no is null and expected in (0, -1) then
    insert into {schema}.event_stream as s (key, version) values (stream, v_count)
    on conflict on constraint event_stream_key do update set version = s.version + v_count
      where s.closed_at is null and (expected = -1 or s.version = 0)
    returning s.no, s.version into v_no, version;
  end if;
  if v_no is null then
    -- A new statement, and in READ COMMITTED a new snapshot: it shows the stream that the update
    -- waited for.
    select s.version, s.closed_at into version, v_closed
      from {schema}.event_stream s where s.key = stream;
    version := coalesce(version, 0);
    outcome := case when v_closed is not null then 'closed' else 'conflict' end;
    return;
  end if;
  if v_count = 1 then
    insert into {schema}.event (no, stream, version, at, id, key, type, data, metadata,
                                correlation_id, causation_id)
    values (nextval('{schema}.event_no'), v_no, version, {schema}.clock(),
            coalesce(ids[1], {schema}.uuid_v7()), stream, types[1], data[1], metadata[1],
            correlation_ids[1], causation_ids[1]);
  else
    insert into {schema}.event (no, stream, version, at, id, key, type, data, metadata,
                                correlation_id, causation_id)
    select nextval('{schema}.event_no'), v_no, version - v_count + u.i, {schema}.clock(),
           coalesce(u.id, {schema}.uuid_v7()), stream, u.type, u.data, u.metadata, u.correlation_id,
           u.causation_id
      from unnest(types, data, metadata, ids, correlation_ids, causation_ids) with ordinality
           as u(type, data, metadata, id, correlation_id, causation_id, i);
  end if;
  if notify then
    perform {schema}._wake('events');
  end if;
  outcome := 'appended';
end
$function$;
comment on function {schema}.event_try_append is
  'Appends events to a stream if it is at the expected version; returns the outcome.';

-- The same, but raises an exception (SQLSTATE DT409) if nothing was appended. Returns the version
-- of the last event.
create function {schema}.event_append(
  stream          text,
  expected        bigint,
  types           text[],
  data            text[],
  metadata        text[]  default null,
  ids             uuid[]  default null,
  correlation_ids text[]  default null,
  causation_ids   text[]  default null,
  notify          boolean default true
) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_done record;
begin
  select * into v_done
    from {schema}.event_try_append(stream, expected, types, data, metadata, ids, correlation_ids,
                                   causation_ids, false, notify);
  if v_done.outcome = 'duplicate' then
    raise exception 'some of the ids belong to events that were appended before'
      using errcode = 'unique_violation';
  elsif v_done.outcome in ('conflict', 'closed') then
    raise exception 'stream "%" %: expected version %, actual version %', stream,
      case v_done.outcome when 'closed' then 'is closed' else 'has another version' end,
      expected, v_done.version
      using errcode = 'DT409', detail = v_done.version::text;
  end if;
  return v_done.version;
end
$function$;
comment on function {schema}.event_append is
  'Appends events to a stream; raises DT409 if it is not at the expected version, or closed.';

-- Appends to several streams, all or none. Event i belongs to the stream streams[of[i]]. Returns a
-- row for each stream. If one of them is a 'conflict', 'closed' or 'duplicate', nothing was
-- written, and only such streams are returned.
create function {schema}.event_try_append_many(
  streams         text[],
  expected        bigint[],
  of              bigint[],
  types           text[],
  data            text[],
  metadata        text[]  default null,
  ids             uuid[]  default null,
  correlation_ids text[]  default null,
  causation_ids   text[]  default null,
  fresh           boolean default false,
  notify          boolean default true
) returns table (stream text, outcome text, version bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_count integer := cardinality(types);
  v_key text;
  v_creates boolean;
begin
  perform {schema}._event_check(types, data, metadata, ids, correlation_ids, causation_ids);
  if cardinality(of) is distinct from v_count
     or cardinality(streams) is distinct from cardinality(expected)
     or (select count(distinct k) <> cardinality(streams) or bool_or(k is null)
           from unnest(streams) k)
     or (select count(distinct o) <> cardinality(streams)
                or bool_or(o is null or o not between 1 and cardinality(streams)) from unnest(of) o)
     or (select bool_or(e is null or e < -2) from unnest(expected) e) then
    raise exception 'streams must be distinct, with an expected version and events each'
      using errcode = 'invalid_parameter_value';
  end if;
  for v_key, v_creates in
    select k.key, k.expected in (0, -1) from unnest(streams, expected) k(key, expected)
     order by k.key collate "C"
  loop
    perform {schema}._event_lock(v_key, v_creates);
  end loop;
  if ids is not null and not fresh then
    return query
    select e.key, 'repeated', max(e.version) from {schema}.event e
     where e.id = any (ids) and e.key = any (streams)
       and (select count(*) from {schema}.event o
             where o.id = any (ids) and o.key = any (streams)) = v_count
     group by e.key order by e.key;
    if found then
      return;
    end if;
    return query
    select k, 'duplicate', 0::bigint from unnest(streams) k
     where exists (select from {schema}.event o where o.id = any (ids));
    if found then
      return;
    end if;
  end if;
  return query
  select k.key, case when s.closed_at is null then 'conflict' else 'closed' end,
         coalesce(s.version, 0)
    from unnest(streams, expected) k(key, expected)
    left join {schema}.event_stream s on s.key = k.key
   where s.closed_at is not null
      or not case k.expected when -1 then true when -2 then coalesce(s.version, 0) > 0
                             else coalesce(s.version, 0) = k.expected end
   order by k.key collate "C";
  if found then
    return;
  end if;
  return query
  with counts as (select o.of, count(*) as n from unnest(of) o(of) group by o.of)
  update {schema}.event_stream s set version = s.version + c.n
    from counts c where s.key = streams[c.of]
  returning s.key::text, 'appended', s.version;
  insert into {schema}.event (no, stream, version, at, id, key, type, data, metadata,
                              correlation_id, causation_id)
  select nextval('{schema}.event_no'), q.*
    from (select s.no, s.version - count(*) over (partition by u.of)
                 + row_number() over (partition by u.of order by u.i),
                 {schema}.clock(), coalesce(u.id, {schema}.uuid_v7()), s.key::text, u.type, u.data,
                 u.metadata, u.correlation_id, u.causation_id
            from unnest(of, types, data, metadata, ids, correlation_ids, causation_ids)
                 with ordinality
                 as u(of, type, data, metadata, id, correlation_id, causation_id, i)
            join {schema}.event_stream s on s.key = streams[u.of]
           order by u.i) q;
  if notify then
    perform {schema}._wake('events');
  end if;
end
$function$;
comment on function {schema}.event_try_append_many is
  'Appends events to several streams, all or none; returns the outcome for each stream.';
