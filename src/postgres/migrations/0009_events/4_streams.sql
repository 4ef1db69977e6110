-- Reading a stream, and its end.

-- A page of a stream: up to `most` events, from the version `from_version` on, or downwards from
-- it.
create function {schema}.event_read_stream(
  stream       text,
  from_version bigint  default null,
  most         integer default 1000,
  backwards    boolean default false
) returns table (version bigint, at timestamptz, id uuid, type text, data text, metadata text,
                 correlation_id text, causation_id text)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_stream bigint := (select s.no from {schema}.event_stream s where s.key = stream);
begin
  if backwards then
    return query
    select e.version, e.at, e.id, e.type::text, e.data, e.metadata, e.correlation_id::text,
           e.causation_id::text
      from {schema}.event e
     where e.stream = v_stream and e.version <= coalesce(from_version, 9223372036854775807)
     order by e.version desc limit most;
  else
    return query
    select e.version, e.at, e.id, e.type::text, e.data, e.metadata, e.correlation_id::text,
           e.causation_id::text
      from {schema}.event e
     where e.stream = v_stream and e.version >= coalesce(from_version, 1)
     order by e.version limit most;
  end if;
end
$function$;
comment on function {schema}.event_read_stream is
  'A page of the events of one stream, forwards or backwards.';

-- Closes a stream: it accepts no more events. Returns whether it was open. A stream without events
-- can be closed, too: its key is then used.
create function {schema}.event_close(stream text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  insert into {schema}.event_stream as s (key, closed_at) values (stream, {schema}.clock())
  on conflict on constraint event_stream_key do update set closed_at = excluded.closed_at
    where s.closed_at is null;
  return found;
end
$function$;
comment on function {schema}.event_close is
  'Closes a stream: it accepts no more events; returns whether it was open.';

-- Deletes the events of a stream before the version `before`, and returns their number. The last
-- event stays: event_delete deletes all. Their positions stay empty.
create function {schema}.event_truncate(stream text, before bigint) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
#variable_conflict use_variable
declare
  v_no bigint;
  v_before bigint;
  v_count bigint;
begin
  update {schema}.event_stream s
     set first_version = greatest(s.first_version, least(before, s.version))
   where s.key = stream and s.deleted_at is null and s.version > 0
  returning s.no, s.first_version into v_no, v_before;
  delete from {schema}.event e where e.stream = v_no and e.version < v_before;
  get diagnostics v_count = row_count;
  return v_count;
end
$function$;
comment on function {schema}.event_truncate is
  'Deletes the events of a stream before a version, except the last one; returns how many.';

-- Closes a stream, and deletes its events and snapshots. Returns whether it existed. The key is
-- never used again.
create function {schema}.event_delete(stream text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
#variable_conflict use_variable
declare
  v_no bigint;
begin
  update {schema}.event_stream s
     set closed_at = coalesce(s.closed_at, {schema}.clock()), deleted_at = {schema}.clock(),
         first_version = s.version + 1
   where s.key = stream and s.deleted_at is null and (s.version > 0 or s.closed_at is not null)
  returning s.no into v_no;
  if v_no is null then
    return false;
  end if;
  delete from {schema}.event e where e.stream = v_no;
  delete from {schema}.event_snapshot p where p.stream = v_no;
  return true;
end
$function$;
comment on function {schema}.event_delete is
  'Closes a stream and deletes its events and snapshots; returns whether it existed.';

-- Stores a snapshot of a stream, if it is newer than the stored one: its schema is higher, or its
-- schema is the same and its version is higher. Returns whether it was stored.
create function {schema}.event_snapshot_store(stream text, name text, version bigint,
                                              schema integer, data text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
#variable_conflict use_variable
begin
  insert into {schema}.event_snapshot as p (stream, version, at, schema, name, data)
  select s.no, version, {schema}.clock(), schema, name, data from {schema}.event_stream s
   where s.key = stream and s.deleted_at is null and version between 1 and s.version
  on conflict on constraint event_snapshot_pkey do update
     set version = excluded.version, at = excluded.at, schema = excluded.schema,
         data = excluded.data
   where (p.schema, p.version) < (excluded.schema, excluded.version);
  return found;
end
$function$;
comment on function {schema}.event_snapshot_store is
  'Stores a snapshot of a stream if it is newer than the stored one; returns whether it was.';

create view {schema}.event_snapshots as
  select s.key::text as stream, p.name::text as name, p.version, p.schema, p.at, p.data
    from {schema}.event_snapshot p join {schema}.event_stream s on s.no = p.stream;
comment on view {schema}.event_snapshots is
  'The newest snapshot of each stream and name.';
