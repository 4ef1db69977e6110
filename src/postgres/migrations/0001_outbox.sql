-- The outbox: a queue table that holds only unfinished messages, an archive table for finished
-- messages, and the functions that are the public interface. The tables are private. Functions and
-- views may be called from any language, inside any transaction. psql shows the comments on public
-- functions and views (\df+, \dv+). Internal functions have no such comment, and their names begin
-- with an underscore.

-- Only the owner of a schema may comment on it, and the schema may belong to another role.
do $block$
begin
  if exists (select from pg_catalog.pg_namespace n
              where n.nspname = pg_catalog.replace('{schema}', '"', '')
                and pg_catalog.pg_has_role(n.nspowner, 'usage')
                and pg_catalog.obj_description(n.oid, 'pg_namespace') is null) then
    execute 'comment on schema {schema} is '
      '''Dovetail: reliable background work. Functions and views are the contract.''';
  end if;
end
$block$;

-- Functions with a SQL-standard body (`return ...`) pin no search_path: their names are resolved
-- when they are created, and a setting would keep the planner from inlining them.

-- The time of the database, which decides everything durable. now() would stay at the start of the
-- transaction. Tests replace this function to move the time.
--
-- The function is volatile, and PostgreSQL does not use an index for a comparison with a volatile
-- expression. Conditions that need an index use (select {schema}.clock()), which is evaluated once
-- per statement.
create function {schema}.clock() returns timestamptz
  language sql volatile parallel safe
  return clock_timestamp();
comment on function {schema}.clock is
  'The time by which everything durable is decided.';

-- A time-ordered UUID (version 7) for callers that bring no id: 48 bits of milliseconds, then
-- random bits.
create function {schema}.uuid_v7() returns uuid
  language sql volatile parallel safe
  return encode(
           set_bit(set_bit(
             overlay(uuid_send(gen_random_uuid())
                     placing substring(
                       int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                     from 1 for 6),
             52, 1), 53, 1), 'hex')::uuid;
comment on function {schema}.uuid_v7 is
  'A time-ordered UUID (version 7).';

-- Wakes the listening workers when the transaction commits. The channel of the schema infra is
-- dovetail_infra. The payload is the name of the queue, so that a message in the outbox does not
-- wake schedulers, which listen for timers and jobs.
create function {schema}._wake(queue text default '') returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  perform pg_notify(replace('dovetail_{schema}', '"', ''), queue);
end
$function$;

-- The allowed values of columns are domains, which are checked when a value is assigned. Every
-- claim would check table constraints again, and read them from the catalog.
create domain {schema}.queue_name as text check (char_length(value) between 1 and 255);
create domain {schema}.queue_headers as jsonb check (jsonb_typeof(value) = 'object');
create domain {schema}.queue_time as timestamptz check (isfinite(value));
create domain {schema}.queue_priority as smallint check (value between -5 and 5);
create domain {schema}.queue_stream as text collate "C"
  check (char_length(value) between 1 and 255);

-- The partition of a stream, from 0. It depends only on the name and on the number of partitions.
create function {schema}.stream_partition(stream text, partition_count integer default 10000)
  returns integer
  language sql immutable strict parallel safe
  return mod(hashtextextended(stream, 0) & 9223372036854775807, partition_count)::integer;
comment on function {schema}.stream_partition is
  'The partition of a stream, out of partition_count.';

-- The delay before the next attempt of a message that failed `attempts` times: 2, 4, 8 ... 60
-- seconds, less a random part of up to a tenth.
create function {schema}._queue_backoff(attempts integer) returns interval
  language sql volatile parallel safe
  return least(power(2, least(attempts, 6)), 60) * (1 - random() * 0.1) * interval '1 second';

-- Adds a failed attempt to the failures of a message, and returns them: an array of the newest ten,
-- oldest first. `at`: microseconds since 1970, because the text of a time depends on the session.
-- The last error of a message is in its column last_error, up to 2,048 characters; here 512 of each
-- are kept. kind: failed, lost_lease or expired; null: nothing is added.
create function {schema}._queue_failed(failures jsonb, attempt integer, kind text, error text,
                                       owner_token uuid) returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if kind is null then
    return failures;
  end if;
  return case when jsonb_array_length(failures) >= 10 then failures - 0
              else coalesce(failures, '[]') end
         || jsonb_strip_nulls(jsonb_build_object(
              'attempt', attempt, 'at', (extract(epoch from {schema}.clock()) * 1000000)::bigint,
              'kind', kind, 'error', left(error, 512), 'owner', owner_token));
end
$function$;

create function {schema}._queue_check(topic text, payload text, correlation_id text, headers jsonb,
                                      priority integer, unique_key text) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if topic is null or topic = '' then
    raise exception 'topic must not be null or empty' using errcode = 'invalid_parameter_value';
  elsif char_length(topic) > 255 then
    raise exception 'topic must not exceed 255 characters'
      using errcode = 'invalid_parameter_value';
  elsif payload is null then
    raise exception 'payload must not be null' using errcode = 'invalid_parameter_value';
  elsif octet_length(payload) > 67108864 then
    raise exception 'payload must not exceed 67108864 bytes'
      using errcode = 'invalid_parameter_value';
  elsif char_length(correlation_id) > 255 then
    raise exception 'correlation_id must not exceed 255 characters'
      using errcode = 'invalid_parameter_value';
  elsif char_length(unique_key) > 255 then
    raise exception 'unique_key must not exceed 255 characters'
      using errcode = 'invalid_parameter_value';
  elsif priority is null or priority not between -5 and 5 then
    raise exception 'priority must be -5 to 5' using errcode = 'invalid_parameter_value';
  elsif headers is not null and (jsonb_typeof(headers) <> 'object' or exists (
          select from jsonb_each(
                   case jsonb_typeof(headers) when 'object' then headers else '{}' end) each
           where jsonb_typeof(each.value) <> 'string')) then
    raise exception 'headers must be an object of strings'
      using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- The hooks of queues: components that have to act when messages of a queue end or are replayed. A
-- component registers itself with _queue_add_hook. It has these functions:
--   _<component>_ended(ids uuid[], outcome integer)
--       Messages have ended. outcome: 1 done, 2 failed.
--   _<component>_lock_ends(ids uuid[], wait boolean)
--       Locks the rows that _ended will change, and returns the messages whose rows are locked.
--       Without wait, it skips locked rows.
--   _<component>_replayed(ids uuid[])
--       Optional. Failed messages are ready again.
--   _<component>_spares(ids uuid[])
--       Optional. Returns the messages that must not fail because their leases expired.
-- They run in the transaction that ends the messages, in the order of registration.
create table {schema}.queue_hook (
  place     integer generated always as identity,
  queue     text not null,
  component text not null,
  relation  text,   -- the hooks are skipped when this table does not exist
  condition text,   -- _ended is skipped unless this SQL expression is true
  constraint queue_hook_pkey primary key (queue, component)
);

-- Creates the functions _<queue>_ended, _<queue>_lock_ends, _<queue>_replayed and _<queue>_spared,
-- which call the hooks of a queue. The calls are generated, because a loop over the table would
-- plan each call whenever messages end.
create function {schema}._queue_link_hooks(queue text) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_frame text := 'create or replace function {schema}._' || queue
    || '_%s language plpgsql volatile '
    || 'set search_path = pg_catalog, pg_temp as $hooks$ %s $hooks$';
  v_ended text;
  v_lock_ends text;
  v_replayed text;
  v_spared text;
begin
  with hook as (
    select h.place,
           case when h.relation is null then 'true'
                else format('to_regclass(%L) is not null',
                            '{schema}.' || h.relation) end as is_there,
                            coalesce(h.condition, 'true') as condition,
                            '{schema}._' || h.component as prefix
      from {schema}.queue_hook h where h.queue = _queue_link_hooks.queue
  )
  select string_agg(format('if %s then if %s then perform %s_ended(ids, outcome); end if; end if;',
                           is_there, condition, prefix), ' ' order by place),
         string_agg(format('if ids <> ''{}'' and %s then ids := %s_lock_ends(ids, wait); end if;',
                           is_there, prefix), ' '
                    order by place),
         string_agg(format('if %s then perform %s_replayed(ids); end if;', is_there, prefix), ' '
                    order by place)
           filter (where to_regprocedure(prefix || '_replayed(uuid[])') is not null),
         string_agg(format('if %s then spared := spared || %s_spares(ids); end if;',
                           is_there, prefix), ' ' order by place)
           filter (where to_regprocedure(prefix || '_spares(uuid[])') is not null)
    into v_ended, v_lock_ends, v_replayed, v_spared
    from hook;
  execute format(v_frame, 'ended(ids uuid[], outcome integer) returns void',
                 format('begin %s end', v_ended));
  execute format(v_frame, 'lock_ends(ids uuid[], wait boolean) returns uuid[]',
                 format('begin %s return ids; end', v_lock_ends));
  execute format(v_frame, 'replayed(ids uuid[]) returns void',
                 format('begin %s end', v_replayed));
  execute format(v_frame, 'spared(ids uuid[]) returns uuid[]',
                 format('declare spared uuid[] := ''{}''; begin %s return spared; end', v_spared));
end
$function$;

-- Registers the hooks of a component with a queue. Migrations call it.
create function {schema}._queue_add_hook(queue text, component text, relation text default null,
                                         condition text default null) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  insert into {schema}.queue_hook (queue, component, relation, condition)
  values (_queue_add_hook.queue, _queue_add_hook.component, _queue_add_hook.relation,
          _queue_add_hook.condition);
  perform {schema}._queue_link_hooks(_queue_add_hook.queue);
end
$function$;

-- template: queue_1 queue=outbox

-- Stores a message and returns only its id; see outbox_try_enqueue.
create function {schema}.outbox_enqueue(
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
  stream         text        default null
) returns uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return (select e.id
            from {schema}.outbox_try_enqueue(topic, payload, message_id, correlation_id, due_at,
                                             headers, expires_at, priority, unique_key, notify,
                                             delay, stream) e);
end
$function$;
comment on function {schema}.outbox_enqueue is
  'Stores a message in the outbox and returns its id; see outbox_try_enqueue.';
