-- Other ends of a claim: abandon, fail, snooze, renew and reap.

-- Returns claimed messages to the queue for another attempt after `delay`, or after the default
-- backoff if it is null. Each is charged one attempt, and fails if that reaches max_attempts.
-- on_stream_failure: what becomes then of a message of a stream: block, park or skip_order.
-- Returns their number.
create function {schema}.{queue}_abandon(
  owner_token  uuid,
  ids          uuid[],
  epochs       bigint[],
  error        text     default null,
  delay        interval default null,
  max_attempts integer  default 10,
  on_stream_failure text default 'block'
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
  v_spent tid[];
  v_count integer := 0;
begin
  if max_attempts is null or max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  elsif delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  end if;
  if cardinality(v_rows) < cardinality(ids) then
    v_count := {schema}._{queue}_abandon_streams(owner_token, ids, epochs, error, delay,
                                                 max_attempts, on_stream_failure);
  end if;
  if v_rows = '{}' then
    return v_count;
  end if;
  v_spent := array(select o.ctid from {schema}.{queue} o
                    where o.ctid = any (v_rows) and o.attempts + 1 >= max_attempts);
  if v_spent <> '{}' then
    v_count := v_count
               + {schema}._{queue}_finish(v_spent, 3::smallint, error, owner_token, 1);
    v_rows := array(select unnest(v_rows) except select unnest(v_spent));
  end if;
  update {schema}.{queue} o
     set owner_token = null, lease_until = null, attempts = o.attempts + 1, lost_leases = 0,
         ready_at = {schema}.clock() + coalesce(delay, {schema}._queue_backoff(o.attempts + 1)),
         last_error = coalesce(left(error, 2048), o.last_error),
         failures = {schema}._queue_failed(o.failures, o.past_attempts + o.attempts + 1, 'failed',
                                           error, {queue}_abandon.owner_token)
   where o.ctid = any (v_rows);
  return v_count + cardinality(v_rows);
end
$function$;
comment on function {schema}.{queue}_abandon is
  'Gives failed messages back: they are retried later, or become dead letters at max_attempts.';

-- Fails claimed messages: they become dead letters. Returns their number. charge: 1 counts the
-- failed attempt; 0 is for a failure without an attempt. on_stream_failure: as for
-- {queue}_abandon.
create function {schema}.{queue}_fail(owner_token uuid, ids uuid[], epochs bigint[], error text,
                                      charge integer default 1,
                                      on_stream_failure text default 'block')
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
  v_count integer := 0;
begin
  if error is null then
    raise exception 'error must not be null' using errcode = 'invalid_parameter_value';
  end if;
  if cardinality(v_rows) < cardinality(ids) then
    v_count := {schema}._{queue}_fail_streams(owner_token, ids, epochs, error, charge,
                                              on_stream_failure);
  end if;
  if v_rows = '{}' then
    return v_count;
  end if;
  return v_count + {schema}._{queue}_finish(v_rows, 3::smallint, error, owner_token, charge);
end
$function$;
comment on function {schema}.{queue}_fail is
  'Makes claimed messages dead letters.';

-- Returns claimed messages to the queue without charging an attempt: after `delay`, or at once and
-- at their old place if it is null. Returns their number.
create function {schema}.{queue}_snooze(owner_token uuid, ids uuid[], epochs bigint[],
                                        delay interval default null)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
  v_count integer := 0;
begin
  if delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  end if;
  if cardinality(v_rows) < cardinality(ids) then
    v_count := {schema}._{queue}_snooze_streams(owner_token, ids, epochs, delay);
  end if;
  update {schema}.{queue} o
     set owner_token = null, lease_until = null,
         ready_at = coalesce({schema}.clock() + delay, o.ready_at)
   where o.ctid = any (v_rows);
  return v_count + cardinality(v_rows);
end
$function$;
comment on function {schema}.{queue}_snooze is
  'Gives claimed messages back without charging an attempt.';

-- Renews the leases of claimed messages until `lease` from now. Returns the ids of those that were
-- still held and not locked by a transaction that settles them.
create function {schema}.{queue}_renew(
  owner_token uuid,
  ids         uuid[],
  epochs      bigint[],
  lease       interval default interval '30 seconds'
) returns setof uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs, false);
begin
  if lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  end if;
  return query
  update {schema}.{queue} o set lease_until = {schema}.clock() + lease
    where o.ctid = any (v_rows) returning o.id;
  if cardinality(v_rows) < cardinality(ids) then
    return query select {schema}._{queue}_renew_streams(owner_token, ids, epochs, lease);
  end if;
end
$function$;
comment on function {schema}.{queue}_renew is
  'Renews the leases of claimed messages; returns the ids that are still held.';

-- Takes back up to `most` expired leases, and returns their number. Each is charged one attempt.
-- max_attempts: messages with that many attempts fail here. If it is null, the next claim of the
-- topic decides that, because the limit belongs to the handler. look_at: read only that many due
-- rows of each lane. Messages in progress are usually near the front. If it is null, the whole
-- queue is read.
create function {schema}.{queue}_reap_expired(
  max_attempts integer default null,
  most         integer default 1000,
  look_at      integer default null
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_rows tid[];
  v_spent uuid[];
  v_count integer;
  v_of_runs integer;
begin
  if max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  v_of_runs := {schema}._{queue}_reap_runs();
  if look_at is null then
    v_rows := array(select o.ctid from {schema}.{queue} o
                     where o.lease_until <= v_now limit most for update skip locked);
  else
    v_rows := array(
      select o.ctid from {schema}.{queue} o
       where o.lease_until <= v_now and o.ctid = any (array(
               select near.ctid
                 from generate_series(5, -5, -1) as lanes(lane)
                cross join lateral (select r.ctid from {schema}.{queue} r
                                     where r.lane = lanes.lane and r.ready_at <= v_now
                                     order by r.ready_at, r.id limit look_at) near))
       limit most for update skip locked);
  end if;
  if v_rows = '{}' then
    return v_of_runs + {schema}._{queue}_reap_streams(most);
  end if;
  v_spent := array(select o.id from {schema}.{queue} o
                    where o.ctid = any (v_rows) and o.attempts + 1 >= max_attempts);
  update {schema}.{queue} o
     set owner_token = null, lease_until = null, attempts = o.attempts + 1,
         lost_leases = least(o.lost_leases + 1, 1000),
         failures = {schema}._queue_failed(o.failures, o.past_attempts + o.attempts + 1,
                                           'lost_lease', null, o.owner_token)
   where o.ctid = any (v_rows) and o.id <> all (v_spent);
  get diagnostics v_count = row_count;
  if v_spent <> '{}' then
    v_spent := {schema}._{queue}_lock_ends(v_spent, false);
    v_count := v_count + {schema}._{queue}_finish(
      array(select o.ctid from {schema}.{queue} o where o.id = any (v_spent)),
      3::smallint, 'the lease expired on the last attempt', null, 1);
  end if;
  return v_of_runs + v_count + {schema}._{queue}_reap_streams(most);
end
$function$;
comment on function {schema}.{queue}_reap_expired is
  'Takes back messages whose leases have expired; returns how many.';
