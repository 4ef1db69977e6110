-- One-time timers: a queue of messages that enter the outbox when their time comes. A started
-- Platform moves due timers, in one transaction. You can write a processor of your own with
-- timers_claim, timers_ack and the other functions of the queue.

-- template: queue_1 queue=timers

-- Stores a timer. Returns its id and whether it was stored. It is not stored if its timer_id was
-- used before, or if an unfired timer has its unique_key; then the id of that timer is returned.
-- The message of the timer gets the id of the timer. Give either due_at or delay, which counts from
-- now by the clock of the database.
create function {schema}.timers_schedule(
  topic          text,
  payload        text,
  due_at         timestamptz default null,
  correlation_id text    default null,
  unique_key     text    default null,
  timer_id       uuid    default null,
  headers        jsonb   default null,
  priority       integer default 0,
  delay          interval default null,
  out id         uuid,
  out stored     boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if due_at is null and delay is null then
    raise exception 'due_at or delay must not be null' using errcode = 'invalid_parameter_value';
  end if;
  select t.id, t.stored into id, stored
    from {schema}.timers_try_enqueue(topic, payload, timer_id, correlation_id, due_at, headers,
                                     null, priority, unique_key, delay => delay) t;
end
$function$;
comment on function {schema}.timers_schedule is
  'Stores a timer: at due_at, or after delay, it becomes a message of the outbox. Returns its id.';

-- Removes a timer that has not fired and that no processor holds. Returns whether there was one.
create function {schema}.timers_cancel(id uuid) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
begin
  delete from {schema}.timers t
   where t.id = timers_cancel.id and (t.lease_until is null or t.lease_until <= {schema}.clock());
  return found;
end
$function$;
comment on function {schema}.timers_cancel is
  'Removes a timer that has not fired; returns whether there was one.';

-- Changes the time of a timer that has not fired and that no processor holds. Returns whether there
-- was one.
create function {schema}.timers_reschedule(id uuid, due_at timestamptz default null,
                                           delay interval default null)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_due timestamptz := coalesce(timers_reschedule.due_at, v_now + delay);
begin
  if timers_reschedule.due_at is not null and delay is not null then
    raise exception 'due_at and delay exclude each other' using errcode = 'invalid_parameter_value';
  elsif delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  elsif v_due is null or not isfinite(v_due) then
    raise exception 'due_at must be a finite time' using errcode = 'invalid_parameter_value';
  end if;
  update {schema}.timers t
     set due_at = v_due, ready_at = greatest(v_due, v_now),
         lease_until = null, owner_token = null
   where t.id = timers_reschedule.id
     and (t.lease_until is null or t.lease_until <= {schema}.clock());
  if found then
    perform {schema}._wake('timers');
  end if;
  return found;
end
$function$;
comment on function {schema}.timers_reschedule is
  'Changes the time of a timer that has not fired; returns whether there was one.';

-- Internal, for firing timers. Returns the number of due messages in the outbox that wait for a
-- worker, counted up to `most`.
create function {schema}._timers_backlog(most integer) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_now timestamptz := {schema}.clock();
begin
  return (select count(*)
            from (select from generate_series(-5, 5) as lanes(lane)
                   cross join lateral (select from {schema}.outbox o
                                        where o.lane = lanes.lane and o.ready_at <= v_now
                                          and o.lease_until is null
                                        limit most) each
                   limit most) waiting);
end
$function$;

-- Internal, for firing timers. Returns whether the outbox has, or had, a message with one of these
-- ids.
create function {schema}._timers_any_known(ids uuid[]) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  return exists (select from {schema}.outbox o where o.id = any (ids))
         or exists (select from {schema}.outbox_archive a where a.id = any (ids));
end
$function$;
