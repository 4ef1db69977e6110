-- Counting and attaching the steps of joins.

-- Internal. Makes the messages ready that wait for these joins. A leased message checks the join by
-- itself. A message that another transaction has locked is skipped, because message locks come
-- before join locks; outbox_join_catch_up makes it ready later.
create function {schema}._outbox_join_wake(joins uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := array(
    select o.ctid from {schema}.outbox o
     where o.id = any (array(select w.message_id from {schema}.outbox_join_waiter w
                              where w.join_id = any (joins)))
       and o.lease_until is null and o.ready_at > {schema}.clock()
     order by o.id
     for no key update skip locked);
begin
  if v_rows <> '{}' then
    update {schema}.outbox o set ready_at = {schema}.clock() where o.ctid = any (v_rows);
    perform {schema}._wake();
  end if;
  update {schema}.outbox_join_waiter w set missed = true
   where w.join_id = any (joins) and not w.missed
     and exists (select from {schema}.outbox o
                  where o.id = w.message_id and o.lease_until is null
                    and o.ready_at > {schema}.clock());
end
$function$;

-- Internal. Counts these messages in these joins, and returns the number of members that changed. A
-- step counts when the row of its member leaves the status pending, so a second call changes
-- nothing. Each join is updated once, whatever the number of its steps.
create function {schema}._outbox_join_count(joins uuid[], ids uuid[], outcome integer)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_steps integer;
  v_done uuid[];
begin
  perform from {schema}.outbox_join j where j.join_id = any (joins)
    order by j.join_id for no key update;
  with changed as (
    update {schema}.outbox_join_member m set status = outcome
     where m.message_id = any (ids) and m.join_id = any (joins) and m.status = 0
    returning m.join_id
  ),
  tally as (
    select c.join_id, count(*)::integer as steps from changed c group by c.join_id
  ),
  counted as (
    update {schema}.outbox_join j
       set completed_steps = j.completed_steps
                             + case outcome when 1 then now_counted.steps else 0 end,
           failed_steps = j.failed_steps + case outcome when 2 then now_counted.steps else 0 end,
           status = case when not now_counted.last then 0
                         when outcome = 2 or j.failed_steps > 0 then 2 else 1 end,
           finished_at = case when now_counted.last then {schema}.clock() end,
           last_updated_at = {schema}.clock(),
           unlogged = now_counted.last and not exists (
             select from {schema}.outbox_join_waiter w where w.join_id = j.join_id)
      from (select t.join_id,
                   least(t.steps, b.expected_steps - b.completed_steps - b.failed_steps) as steps,
                   t.steps >= b.expected_steps - b.completed_steps - b.failed_steps as last
              from tally t join {schema}.outbox_join b on b.join_id = t.join_id
             where b.join_id = any (joins)) now_counted
     where j.join_id = now_counted.join_id and j.join_id = any (joins) and j.status = 0
    returning j.join_id, j.status
  )
  select (select sum(t.steps) from tally t), array_agg(c.join_id) filter (where c.status <> 0)
    into v_steps, v_done
    from counted c;
  if v_done is not null then
    perform {schema}._outbox_join_wake(v_done);
  end if;
  return coalesce(v_steps, 0);
end
$function$;

-- A hook of the outbox; see queue_hook. Counts the messages in their joins.
create function {schema}._outbox_join_ended(ids uuid[], outcome integer) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_joins uuid[];
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    -- This snapshot does not show an attach that committed after the snapshot was taken.
    insert into {schema}.outbox_join_uncounted (message_id, outcome)
    select u.id, outcome from unnest(ids) as u(id);
    perform {schema}._wake('joins');
  end if;
  v_joins := array(select distinct m.join_id from {schema}.outbox_join_member m
                    where m.message_id = any (ids) and m.status = 0);
  if v_joins <> '{}' then
    perform {schema}._outbox_join_count(v_joins, ids, outcome);
  end if;
end
$function$;

-- A hook of the outbox; see queue_hook. Locks the joins that will count the messages.
create function {schema}._outbox_join_lock_ends(ids uuid[], wait boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_joins uuid[];
  v_locked uuid[];
begin
  v_joins := array(select distinct m.join_id from {schema}.outbox_join_member m
                    where m.message_id = any (ids) and m.status = 0);
  if v_joins = '{}' then
    return ids;
  elsif wait then
    perform from {schema}.outbox_join j where j.join_id = any (v_joins)
      order by j.join_id for no key update;
    return ids;
  end if;
  v_locked := array(select j.join_id from {schema}.outbox_join j
                     where j.join_id = any (v_joins) for no key update skip locked);
  return array(select u.id from unnest(ids) as u(id)
                where not exists (select from {schema}.outbox_join_member m
                                   where m.message_id = u.id and m.status = 0
                                     and m.join_id <> all (v_locked)));
end
$function$;

-- A hook of the outbox; see queue_hook. Messages may wait for a join for any time.
create function {schema}._outbox_join_spares(ids uuid[]) returns uuid[]
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return array(select w.message_id from {schema}.outbox_join_waiter w
                where w.message_id = any (ids));
end
$function$;

do $block$
begin
  perform {schema}._queue_add_hook('outbox', 'outbox_join', 'outbox_join_member');
end
$block$;

-- Creates a join that waits for expected_steps steps. Returns its id and whether it was created. If
-- join_id exists already, nothing changes.
create function {schema}.outbox_join_try_start(
  expected_steps integer,
  grouping_key   text        default null,
  metadata       text        default null,
  deadline       timestamptz default null,
  join_id        uuid        default null,
  out id         uuid,
  out created    boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  if expected_steps is null or expected_steps < 1 then
    raise exception 'expected_steps must be at least 1' using errcode = 'invalid_parameter_value';
  elsif char_length(grouping_key) > 255 then
    raise exception 'grouping_key must not exceed 255 characters'
      using errcode = 'invalid_parameter_value';
  elsif not isfinite(deadline) then
    raise exception 'deadline must be finite' using errcode = 'invalid_parameter_value';
  end if;
  id := coalesce(outbox_join_try_start.join_id, {schema}.uuid_v7());
  insert into {schema}.outbox_join (join_id, grouping_key, expected_steps, metadata, deadline,
                                    created_at, last_updated_at)
  values (id, nullif(outbox_join_try_start.grouping_key, ''), outbox_join_try_start.expected_steps,
          outbox_join_try_start.metadata, outbox_join_try_start.deadline, v_now, v_now)
  on conflict do nothing;
  created := found;
end
$function$;
comment on function {schema}.outbox_join_try_start is
  'Creates a join; returns its id and whether it was created.';

-- Creates a join and returns only its id; see outbox_join_try_start.
create function {schema}.outbox_join_start(
  expected_steps integer,
  grouping_key   text        default null,
  metadata       text        default null,
  deadline       timestamptz default null,
  join_id        uuid        default null
) returns uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return (select s.id
            from {schema}.outbox_join_try_start(expected_steps, grouping_key, metadata, deadline,
                                                join_id) s);
end
$function$;
comment on function {schema}.outbox_join_start is
  'Starts a join that expects a number of steps; returns its id.';

-- Makes messages steps of joins, pair by pair. Pairs that exist already stay as they are. A message
-- that has ended is counted at once.
--
-- missing: the first join that does not exist; then nothing is attached. attached: the number of
-- new pairs. unknown: the first message that is not stored, because it is not enqueued yet or was
-- deleted after it ended. known_only: attach nothing if there is an unknown message.
create function {schema}.outbox_join_try_attach(
  joins        uuid[],
  messages     uuid[],
  known_only   boolean default false,
  out missing  uuid,
  out attached integer,
  out unknown  uuid
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_joins uuid[] := array(select distinct u.id from unnest(joins) as u(id));
  v_live uuid[] := '{}';
  v_done uuid[] := '{}';
  v_failed uuid[] := '{}';
begin
  if cardinality(joins) is distinct from cardinality(messages) then
    raise exception 'joins and messages must have the same length'
      using errcode = 'invalid_parameter_value';
  elsif array_position(messages, null) is not null
        or '00000000-0000-0000-0000-000000000000' = any (messages) then
    raise exception 'a message must not be null or the nil UUID'
      using errcode = 'invalid_parameter_value';
  end if;
  attached := 0;
  select u.id into missing from unnest(v_joins) as u(id)
   where not exists (select from {schema}.outbox_join j where j.join_id = u.id) limit 1;
  if found then
    missing := coalesce(missing, '00000000-0000-0000-0000-000000000000');
    return;
  end if;
  -- A transaction that ends one of these messages now waits for this one. Ended messages are in the
  -- archive. A message that is being replayed moves from the archive to the queue, so the search is
  -- repeated.
  for try in 1 .. 3 loop
    v_live := array(select o.id from {schema}.outbox o where o.id = any (messages)
                     order by o.id for key share);
    v_done := array(select a.id from {schema}.outbox_archive a
                     where a.id = any (messages) and a.status = 2);
    v_failed := array(select a.id from {schema}.outbox_archive a
                       where a.id = any (messages) and a.status = 3);
    select u.id into unknown
      from (select unnest(messages) except select unnest(v_live || v_done || v_failed)) as u(id)
      limit 1;
    exit when not found;
  end loop;
  if known_only and unknown is not null then
    return;
  end if;
  insert into {schema}.outbox_join_member (join_id, message_id)
  select distinct u.join_id, u.message_id from unnest(joins, messages) as u(join_id, message_id)
   order by u.join_id, u.message_id
  on conflict do nothing;
  get diagnostics attached = row_count;
  if v_done <> '{}' or v_failed <> '{}' then
    perform from {schema}.outbox_join j where j.join_id = any (v_joins)
      order by j.join_id for no key update;
    perform {schema}._outbox_join_count(v_joins, v_done, 1);
    perform {schema}._outbox_join_count(v_joins, v_failed, 2);
  end if;
end
$function$;
comment on function {schema}.outbox_join_try_attach is
  'Makes messages steps of joins, and tells which joins or messages do not exist.';

-- Makes one message a step of one join. Raises an error if the join does not exist. Returns whether
-- the pair is new. A message that is not stored is attached, and counts when it is enqueued and
-- ends. If done messages are not kept, attach a message before a worker can finish it.
create function {schema}.outbox_join_attach(join_id uuid, message_id uuid) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_missing uuid;
  v_attached integer;
begin
  select t.missing, t.attached into v_missing, v_attached
    from {schema}.outbox_join_try_attach(array[join_id], array[message_id]) t;
  if v_missing is not null then
    raise exception 'join % does not exist', join_id using errcode = 'foreign_key_violation';
  end if;
  return v_attached = 1;
end
$function$;
comment on function {schema}.outbox_join_attach is
  'Makes a message a step of a join; returns false when it was one before.';

-- Reports the end of a step directly: status 1 is completed, 2 is failed. The first report of a
-- step counts, from any source. Returns true if this report was the first, false if it was not, and
-- null if the join does not exist or the message is not one of its steps.
create function {schema}.outbox_join_report(join_id uuid, message_id uuid, status integer)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  if status is null or status not in (1, 2) then
    raise exception 'status must be 1 (completed) or 2 (failed)'
      using errcode = 'invalid_parameter_value';
  elsif not exists (select from {schema}.outbox_join_member m
                     where m.join_id = outbox_join_report.join_id
                       and m.message_id = outbox_join_report.message_id) then
    return null;
  end if;
  return {schema}._outbox_join_count(array[join_id], array[message_id], status) > 0;
end
$function$;
comment on function {schema}.outbox_join_report is
  'Reports the end of a step: 1 completed, 2 failed. Returns whether it was the first.';
