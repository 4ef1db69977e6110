-- compatible-with: 7
-- Fan-out on a schedule: the cadence of each kind of work, and the progress of each slice. The
-- tables are private; the functions and views are the contract. The cron jobs that plan the rounds
-- are ordinary jobs; the slices are ordinary messages of the outbox.

-- One row per topic and work key. The row with the work key '' belongs to a registration for all
-- work keys, and applies to the work keys that have no row of their own. A registration stores
-- default_every, default_jitter and settle; an operator stores set_every and set_jitter, which win.
-- A row that only an operator has stored has no defaults, no settle and no job.
create table {schema}.fanout_policy (
  topic          text collate "C" not null check (char_length(topic) between 1 and 100),
  work_key       text collate "C" not null check (char_length(work_key) <= 100),
  default_every  interval,
  default_jitter interval,
  set_every      interval,
  set_jitter     interval,
  settle         interval,                        -- windows end this time before their message
  job            text,                            -- the name of the job that plans the rounds
  created_at     timestamptz not null default {schema}.clock(),
  updated_at     timestamptz not null default {schema}.clock(),
  constraint fanout_policy_pkey primary key (topic, work_key)
);

-- One row per slice that was ever enqueued or completed. message_id is the message of the slice
-- that was enqueued last, until the slice is completed. While that message is in the outbox, the
-- slice is not enqueued again. replaced_id is the message before it, if that one ended without
-- completing the slice. No index has a column that a round or a completion changes: their updates
-- are HOT.
create table {schema}.fanout_cursor (
  topic             text collate "C" not null check (char_length(topic) between 1 and 100),
  work_key          text collate "C" not null check (char_length(work_key) between 1 and 100),
  shard_key         text collate "C" not null check (char_length(shard_key) between 1 and 256),
  created_at        timestamptz not null,
  updated_at        timestamptz not null,
  last_completed_at timestamptz,
  enqueued_at       timestamptz,
  message_id        uuid,
  replaced_id       uuid,
  constraint fanout_cursor_pkey primary key (topic, work_key, shard_key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

create view {schema}.fanout_policies as
  select p.topic::text as topic, nullif(p.work_key::text, '') as work_key,
         coalesce(p.set_every, p.default_every, a.set_every, a.default_every) as every,
         coalesce(p.set_jitter, p.default_jitter, a.set_jitter, a.default_jitter) as jitter,
         p.default_every, p.default_jitter,
         coalesce(p.settle, a.settle, interval '0') as settle, p.set_every is not null
           or p.set_jitter is not null as set_by_operator, p.job, p.created_at, p.updated_at
    from {schema}.fanout_policy p
    left join {schema}.fanout_policy a on a.topic = p.topic and a.work_key = ''
      and p.work_key <> '';
comment on view {schema}.fanout_policies is
  'The cadence of each topic and work key of a fan-out; work key null: keys without a row.';

-- status: ready and in_progress are those of the slice's message. failed: the message is a dead
-- letter.
create view {schema}.fanout_cursors as
  select f.topic::text as topic, f.work_key::text as work_key, f.shard_key::text as shard_key,
         f.last_completed_at, f.enqueued_at, f.message_id,
         case when o.id is null and a.id is null then 'idle' when o.id is null then 'failed'
              when o.lease_until is null then 'ready' else 'in_progress' end as status,
         coalesce(o.last_error, a.last_error) as last_error, f.created_at, f.updated_at
    from {schema}.fanout_cursor f
    left join {schema}.outbox o on o.id = f.message_id
    left join {schema}.outbox_archive a on a.id = f.message_id and a.status = 3;
comment on view {schema}.fanout_cursors is
  'The progress of each slice of a fan-out: its last completion, and its open or failed message.';

create function {schema}._fanout_check(topic text, work_key text) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if topic is null or char_length(topic) not between 1 and 100 or position(':' in topic) > 0 then
    raise exception 'topic must have 1 to 100 characters and no colon'
      using errcode = 'invalid_parameter_value';
  elsif char_length(work_key) not between 1 and 100 or work_key = 'done' then
    raise exception 'work_key must have 1 to 100 characters and must not be done'
      using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

create function {schema}._fanout_check_cadence(every interval, jitter interval) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if every not between interval '1 millisecond' and interval '3650 days' then
    raise exception 'every must be 1 ms to 3650 days' using errcode = 'invalid_parameter_value';
  elsif jitter not between interval '0' and interval '3650 days' then
    raise exception 'jitter must be 0 to 3650 days' using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- Stores the cadence that the code asks for, and keeps the cadence that an operator has set.
-- work_key: null for all keys. job: the name of the job that plans the rounds, or null if your own
-- code plans them. settle: windows end this time before their message is created, so that they
-- contain the rows of transactions that take less time.
create function {schema}.fanout_register(
  topic    text,
  work_key text     default null,
  every    interval default interval '300 seconds',
  jitter   interval default interval '60 seconds',
  job      text     default null,
  settle   interval default interval '0'
) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_variable
begin
  if every is null or jitter is null then
    raise exception 'every and jitter must not be null' using errcode = 'invalid_parameter_value';
  elsif settle is null or settle not between interval '0' and interval '1 day' then
    raise exception 'settle must be 0 to 1 day' using errcode = 'invalid_parameter_value';
  end if;
  perform {schema}._fanout_check(topic, work_key);
  perform {schema}._fanout_check_cadence(every, jitter);
  insert into {schema}.fanout_policy as p (topic, work_key, default_every, default_jitter, settle,
                                           job)
  values (topic, coalesce(work_key, ''), every, jitter, settle, job)
  on conflict on constraint fanout_policy_pkey do update
     set default_every = excluded.default_every, default_jitter = excluded.default_jitter,
         settle = excluded.settle, job = excluded.job, updated_at = {schema}.clock()
   where (p.default_every, p.default_jitter, p.settle, p.job)
         is distinct from (excluded.default_every, excluded.default_jitter, excluded.settle,
                           excluded.job);
end
$function$;
comment on function {schema}.fanout_register is
  'Stores the cadence of a fan-out. A cadence that an operator has set stays.';

-- Replaces the cadence of one work key. work_key: null replaces that of a registration for all
-- keys. jitter: null keeps the present value. Returns false if neither the work key nor all keys of
-- the topic are registered.
create function {schema}.fanout_set_cadence(topic text, work_key text, every interval,
                                            jitter interval default null)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_variable
begin
  if every is null then
    raise exception 'every must not be null' using errcode = 'invalid_parameter_value';
  end if;
  perform {schema}._fanout_check(topic, work_key);
  perform {schema}._fanout_check_cadence(every, jitter);
  insert into {schema}.fanout_policy as p (topic, work_key, set_every, set_jitter)
  select topic, coalesce(work_key, ''), every, jitter
   where exists (select from {schema}.fanout_policy r
                  where r.topic = fanout_set_cadence.topic
                    and r.work_key in (coalesce(fanout_set_cadence.work_key, ''), ''))
  on conflict on constraint fanout_policy_pkey do update
     set set_every = excluded.set_every, set_jitter = coalesce(excluded.set_jitter, p.set_jitter),
         updated_at = {schema}.clock();
  return found;
end
$function$;
comment on function {schema}.fanout_set_cadence is
  'Replaces the cadence of a fan-out at run time; returns false when there is no such fan-out.';

-- Removes the cadence that an operator has set: the registered one applies again.
create function {schema}.fanout_reset_cadence(topic text, work_key text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_found boolean;
begin
  delete from {schema}.fanout_policy p
   where p.topic = fanout_reset_cadence.topic
     and p.work_key = coalesce(fanout_reset_cadence.work_key, '')
     and p.default_every is null;
  v_found := found;
  update {schema}.fanout_policy p set set_every = null, set_jitter = null,
  updated_at = {schema}.clock()
   where p.topic = fanout_reset_cadence.topic
     and p.work_key = coalesce(fanout_reset_cadence.work_key, '');
  return found or v_found;
end
$function$;
comment on function {schema}.fanout_reset_cadence is
  'Removes the cadence that an operator has set; returns false if there is no such fan-out.';

-- Internal. Returns a number that depends only on the keys. It spreads the slices over the jitter,
-- and is the same in every call.
create function {schema}._fanout_spread(topic text, work_key text, shard_key text) returns bigint
  language sql immutable parallel safe
  return hashtextextended(shard_key,
                          hashtextextended(work_key,
                                           hashtextextended(topic, 0))) & 9223372036854775807;

-- Internal. Enqueues the due slices among the candidates: one message each, with the topic
-- fanout:{topic}:{work_key}. work_keys: one for each shard key, or a single one for all of them.
-- ids: the ids of the messages, one for each shard key.
--
-- It is correct without any lock, because the row of a slice names its message. A second caller
-- that saw an older row waits for the first one. Then it changes nothing, because the row has moved
-- (ctid). Its snapshot alone is not enough: it may not show the message that the first caller has
-- enqueued meanwhile.
create function {schema}._fanout_enqueue_due(topic text, shard_keys text[], work_keys text[],
                                             ids uuid[], notify boolean)
  returns table (message_id uuid, replaced boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_topic text := _fanout_enqueue_due.topic;
  v_one_key text := case when cardinality(work_keys) = 1 then work_keys[1] end;
  v_head text := '{"topic":' || to_json(v_topic)::text || ',"work_key":';
  v_ids uuid[];
  v_topics text[];
  v_payloads text[];
  v_replaced boolean[];
begin
  with policy as materialized (
    select k.work_key,
           (extract(epoch from coalesce(p.set_every, p.default_every, a.set_every,
                                        a.default_every)) * 1000000)::bigint
             as every,
           (extract(epoch from coalesce(p.set_jitter, p.default_jitter, a.set_jitter,
                                        a.default_jitter)) * 1000000)::bigint
             as jitter,
           (extract(epoch from coalesce(p.settle, a.settle, interval '0')) * 1000)::bigint
             as settle_ms
      from (select distinct unnest(work_keys) collate "C" as work_key) k
      left join {schema}.fanout_policy p on p.topic = v_topic and p.work_key = k.work_key
      left join {schema}.fanout_policy a on a.topic = v_topic and a.work_key = ''
  ),
  candidate as (
    select w.work_key, w.shard_key, coalesce(w.id, {schema}.uuid_v7()) as id,
           (p.every + {schema}._fanout_spread(v_topic, w.work_key, w.shard_key) % (p.jitter + 1))
             * interval '1 microsecond' as wait,
           p.settle_ms * interval '1 millisecond' as settle
      from (select u.shard_key collate "C" as shard_key,
                   coalesce(v_one_key, u.work_key) collate "C" as work_key, u.id
              from unnest(shard_keys, work_keys, ids) as u(shard_key, work_key, id)) w
      join policy p on p.work_key = w.work_key
     where p.every is not null
  ),
  due as materialized (
    select distinct on (c.work_key, c.shard_key) c.work_key, c.shard_key, c.id, f.ctid as place,
           f.message_id as replaced_id, f.last_completed_at
      from candidate c
      left join {schema}.fanout_cursor f on f.topic = v_topic and f.work_key = c.work_key
        and f.shard_key = c.shard_key
     where (f.last_completed_at is null or f.last_completed_at + c.settle + c.wait <= v_now)
       and (f.message_id is null
            or (f.enqueued_at + c.wait <= v_now
                and not exists (select from {schema}.outbox o where o.id = f.message_id)))
     order by c.work_key, c.shard_key
  ),
  moved as (
    update {schema}.fanout_cursor f
       set message_id = d.id, replaced_id = d.replaced_id, enqueued_at = v_now, updated_at = v_now
      from due d
     where d.place is not null and f.ctid = d.place
    returning f.message_id, f.work_key, f.shard_key, f.last_completed_at, f.replaced_id
  ),
  added as (
    insert into {schema}.fanout_cursor as f (topic, work_key, shard_key, created_at, updated_at,
                                             enqueued_at, message_id)
    select v_topic, d.work_key, d.shard_key, v_now, v_now, v_now, d.id
      from due d
     where d.place is null
     order by d.work_key, d.shard_key
    on conflict on constraint fanout_cursor_pkey do nothing
    returning f.message_id, f.work_key, f.shard_key, f.last_completed_at, f.replaced_id
  )
  select array_agg(t.message_id), array_agg('fanout:' || v_topic || ':' || t.work_key),
         array_agg(v_head || to_json(t.work_key)::text
                   || ',"shard_key":' || to_json(t.shard_key)::text
                   || ',"window_start":'
                   || coalesce(rtrim(to_json(t.last_completed_at at time zone 'UTC')::text, '"')
                               || 'Z"', 'null')
                   || case when p.settle_ms > 0 then ',"settle_ms":' || p.settle_ms else '' end
                   || '}'),
         array_agg(t.replaced_id is not null)
    into v_ids, v_topics, v_payloads, v_replaced
    from (select m.* from moved m union all select a.* from added a) t
    join policy p on p.work_key = t.work_key;
  if v_ids is null then
    return;
  end if;
  perform {schema}.outbox_enqueue_many(v_ids, v_topics, v_payloads, fresh => true,
                                       notify => _fanout_enqueue_due.notify);
  return query select u.id, u.replaced from unnest(v_ids, v_replaced) as u(id, replaced);
end
$function$;

-- Enqueues the due slices of one work key, and returns the number of messages. Call it with pages
-- of some thousand shard keys.
create function {schema}.fanout_enqueue_due(topic text, work_key text, shard_keys text[])
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if work_key is null then
    raise exception 'work_key must not be null' using errcode = 'invalid_parameter_value';
  end if;
  perform {schema}._fanout_check(topic, work_key);
  if exists (select from unnest(shard_keys) as u(key)
              where u.key is null or char_length(u.key) not between 1 and 256) then
    raise exception 'shard keys must have 1 to 256 characters'
      using errcode = 'invalid_parameter_value';
  elsif not exists (select from {schema}.fanout_policy p
                     where p.topic = fanout_enqueue_due.topic
                       and p.work_key in (fanout_enqueue_due.work_key, '')) then
    raise exception 'there is no fan-out % with the work key %: call fanout_register first', topic,
      work_key
      using errcode = 'invalid_parameter_value';
  end if;
  return (select count(*)
            from {schema}._fanout_enqueue_due(topic, shard_keys, array[work_key], null, true));
end
$function$;
comment on function {schema}.fanout_enqueue_due is
  'Enqueues the slices that are due among these shards; returns their number.';

-- Completes a slice: its next window begins at window_end. Call it in the transaction of the work.
-- window_start is that of the slice, null at the first time. window_end is the created_at of its
-- message minus settle, or an earlier time up to which the work is done. Returns false and changes
-- nothing if another message has completed the slice; then roll the work back.
create function {schema}.fanout_mark_completed(
  topic        text,
  work_key     text,
  shard_key    text,
  window_start timestamptz,
  window_end   timestamptz
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_variable
begin
  perform {schema}._fanout_check(topic, work_key);
  if work_key is null or shard_key is null or char_length(shard_key) not between 1 and 256 then
    raise exception 'work_key must not be null, and shard_key must have 1 to 256 characters'
      using errcode = 'invalid_parameter_value';
  elsif window_end is null or not isfinite(window_end) or window_end < window_start then
    raise exception 'window_end must not be null or before window_start'
      using errcode = 'invalid_parameter_value';
  end if;
  update {schema}.fanout_cursor f
     set last_completed_at = window_end, message_id = null, replaced_id = null,
         updated_at = {schema}.clock()
   where f.topic = fanout_mark_completed.topic and f.work_key = fanout_mark_completed.work_key
     and f.shard_key = fanout_mark_completed.shard_key
     and f.last_completed_at is not distinct from window_start;
  if found or window_start is not null then
    return found;
  end if;
  insert into {schema}.fanout_cursor (topic, work_key, shard_key, created_at, updated_at,
                                      last_completed_at)
  values (topic, work_key, shard_key, {schema}.clock(), {schema}.clock(), window_end)
  on conflict do nothing;
  return found;
end
$function$;
comment on function {schema}.fanout_mark_completed is
  'Completes a slice of a fan-out; returns false when another message has completed it.';

-- Runs the job that plans the rounds now, and returns the ids of the runs. It is the job of the
-- work key, or that of all keys if the work key has none. work_key: null runs the jobs of all work
-- keys of the topic.
create function {schema}.fanout_run_now(topic text, work_key text default null) returns setof uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return query
  select r.id
    from (select {schema}.jobs_trigger(p.job) as id
            from {schema}.fanout_policy p
           where p.topic = fanout_run_now.topic and p.job is not null
             and (fanout_run_now.work_key is null or p.work_key = fanout_run_now.work_key
                  or (p.work_key = '' and not exists (
                        select from {schema}.fanout_policy own
                         where own.topic = p.topic and own.work_key = fanout_run_now.work_key
                           and own.job is not null)))
           order by p.work_key) r
   where r.id is not null;
end
$function$;
comment on function {schema}.fanout_run_now is
  'Plans a round of a fan-out now; returns the ids of the runs, none without such a fan-out.';
