-- Marking claimed messages as done.

-- Internal. Raises an error if an argument is not valid.
create function {schema}._{queue}_check_claims(owner_token uuid, ids uuid[], epochs bigint[])
  returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if owner_token is null then
    raise exception 'owner_token must not be null' using errcode = 'invalid_parameter_value';
  elsif cardinality(ids) is distinct from cardinality(epochs) then
    raise exception 'ids and epochs must have the same length'
      using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- Internal. Locks the rows of these claims that this owner holds, with this epoch and an unexpired
-- lease, and returns them. It locks them in the order of their ids, so that two calls do not
-- deadlock. wait: false skips rows that another transaction has locked.
create function {schema}._{queue}_lock_claims(owner_token uuid, ids uuid[], epochs bigint[],
                                              wait boolean default true)
  returns tid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_rows tid[];
begin
  perform {schema}._{queue}_check_claims(owner_token, ids, epochs);
  if wait then
    v_rows := array(
      select o.ctid from (select distinct u.id, u.epoch from unnest(ids, epochs) as u(id, epoch)) c
        join {schema}.{queue} o on o.id = c.id and o.claim_epoch = c.epoch
       where o.owner_token = _{queue}_lock_claims.owner_token and o.lease_until > v_now
       order by o.id
       for update of o);
  else
    v_rows := array(
      select o.ctid from (select distinct u.id, u.epoch from unnest(ids, epochs) as u(id, epoch)) c
        join {schema}.{queue} o on o.id = c.id and o.claim_epoch = c.epoch
       where o.owner_token = _{queue}_lock_claims.owner_token and o.lease_until > v_now
       order by o.id
       for no key update of o skip locked);
  end if;
  -- Check the lease again after the rows are locked: it may have expired during the wait.
  if v_rows <> '{}' and exists (select from {schema}.{queue} o
                                 where o.ctid = any (v_rows)
                                   and o.lease_until <= {schema}.clock()) then
    v_rows := array(select o.ctid from {schema}.{queue} o
                     where o.ctid = any (v_rows) and o.lease_until > {schema}.clock());
  end if;
  return v_rows;
end
$function$;

-- Internal. Returns the claims that can be settled without waiting for a lock. They stay locked
-- until the transaction ends.
create function {schema}._{queue}_settleable(owner_token uuid, ids uuid[], epochs bigint[])
  returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_ids uuid[];
  v_rows tid[];
begin
  perform {schema}._{queue}_check_claims(owner_token, ids, epochs);
  v_ids := array(
    select o.id from {schema}.{queue} o
     where o.id = any (ids) and o.owner_token = _{queue}_settleable.owner_token
       and o.lease_until > {schema}.clock()
       and ((o.id, o.claim_epoch) in (select u.id, u.epoch
                                        from unnest(ids, epochs) as u(id, epoch))) is true
     order by o.id
     for update skip locked);
  if cardinality(v_ids) < cardinality(ids) then
    v_rows := {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs, false);
    v_ids := v_ids || array(select o.id from {schema}.{queue} o where o.ctid = any (v_rows));
  end if;
  return case when v_ids = '{}' then v_ids else {schema}._{queue}_lock_ends(v_ids, false) end;
end
$function$;

-- Internal. Clears the count of expired leases of these messages. The process that held them is
-- alive, so the messages did not kill it. Skips messages that another transaction has locked.
create function {schema}._{queue}_absolve(ids uuid[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := array(select o.ctid from {schema}.{queue} o
                         where o.id = any (ids) and o.lost_leases > 0
                         order by o.id for no key update skip locked);
begin
  update {schema}.{queue} o set lost_leases = 0 where o.ctid = any (v_rows);
  return cardinality(v_rows);
end
$function$;

-- Internal. Takes back the last lost lease of these messages, and its attempt. No handler began
-- them, and the process that held them is alive. Skips messages that another transaction holds.
create function {schema}._{queue}_uncharge(ids uuid[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_rows tid[] := array(select o.ctid from {schema}.{queue} o
                         where o.id = any (ids) and o.lost_leases > 0
                         order by o.id for no key update skip locked);
begin
  update {schema}.{queue} o
     set lost_leases = o.lost_leases - 1, attempts = greatest(o.attempts - 1, 0),
         failures = case when o.failures -> -1 ->> 'kind' = 'lost_lease'
                         then nullif(o.failures - (-1), '[]') else o.failures end
   where o.ctid = any (v_rows);
  return cardinality(v_rows);
end
$function$;

-- Internal. Completes the ack of messages that were removed. lease: the earliest end of their
-- leases.
create function {schema}._{queue}_acked(ids uuid[], lease timestamptz) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if lease <= {schema}.clock() then
    -- The ack waited for a lock until the lease expired. A repeated ack ignores that message.
    raise exception 'a lease expired while its message was being acked'
      using errcode = 'serialization_failure';
  elsif ids is null then
    return 0;
  end if;
  -- This is a separate statement. Its snapshot is newer than the locks of the messages, so it sees
  -- the latest attach of a join.
  perform {schema}._{queue}_ended(ids, 1);
  return cardinality(ids);
end
$function$;

-- Internal. Does the work of {queue}_ack for a caller that does not know the places of the rows.
--
-- `= any` of an array walks the primary key in the order of the ids, and locks the rows in that
-- order. The epochs are looked up in a hash. With a join, the planner could choose another order.
create function {schema}._{queue}_ack_by_id(owner_token uuid, ids uuid[], epochs bigint[],
                                            keep boolean) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_ids uuid[];
  v_lease timestamptz;
begin
  if not keep then
    with gone as (
      delete from {schema}.{queue} o
       where o.id = any (ids) and o.owner_token = _{queue}_ack_by_id.owner_token
         and o.lease_until > v_now
         and ((o.id, o.claim_epoch) in (select u.id, u.epoch
                                          from unnest(ids, epochs) as u(id, epoch))) is true
      returning o.id, o.lease_until
    )
    select array_agg(g.id), min(g.lease_until) into v_ids, v_lease from gone g;
  elsif exists (select from {schema}.{queue}_archive a where a.id = any (ids)) then
    -- One of the ids is in the archive already. _{queue}_finish handles that.
    return {schema}._{queue}_finish({schema}._{queue}_lock_claims(owner_token, ids, epochs),
                                    2::smallint, null, owner_token, 0);
  else
    with gone as (
      delete from {schema}.{queue} o
       where o.id = any (ids) and o.owner_token = _{queue}_ack_by_id.owner_token
         and o.lease_until > v_now
         and ((o.id, o.claim_epoch) in (select u.id, u.epoch
                                          from unnest(ids, epochs) as u(id, epoch))) is true
      returning o.*
    ),
    kept as (
      insert into {schema}.{queue}_archive (
               processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts,
               status, priority, id, processed_by, topic, correlation_id, unique_key, headers,
               last_error, failures, payload, stages)
      select {schema}.clock(), g.created_at, g.claim_epoch, g.due_at, g.expires_at, g.attempts,
             g.past_attempts, 2, g.priority, g.id, g.owner_token, g.topic, g.correlation_id,
             g.unique_key, g.headers, g.last_error, g.failures, g.payload, g.stages
        from gone g
    )
    select array_agg(g.id), min(g.lease_until) into v_ids, v_lease from gone g;
  end if;
  return {schema}._{queue}_acked(v_ids, v_lease);
end
$function$;

-- Internal, for {queue}_ack. Removes acked messages at the given places, in the order of the
-- arrays. Returns their ids, and the earliest end of their leases. The settings leave one way to
-- read the table: by the places in the array. They also apply to functions that are called from
-- here.
create function {schema}._{queue}_ack_rows(
  owner_token uuid, ids uuid[], epochs bigint[], rows tid[], keep boolean, out gone_ids uuid[],
  out lease timestamptz
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_indexscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  if keep then
    with gone as (
      delete from {schema}.{queue} o using unnest(ids, epochs, rows) as u(id, epoch, row)
       where o.ctid = u.row and o.id = u.id and o.claim_epoch = u.epoch
         and o.owner_token = _{queue}_ack_rows.owner_token
         and o.lease_until > v_now
      returning o.*
    ),
    kept as (
      insert into {schema}.{queue}_archive (
               processed_at, created_at, claim_epoch, due_at, expires_at, attempts, past_attempts,
               status, priority, id, processed_by, topic, correlation_id, unique_key, headers,
               last_error, failures, payload, stages)
      select {schema}.clock(), g.created_at, g.claim_epoch, g.due_at, g.expires_at, g.attempts,
             g.past_attempts, 2, g.priority, g.id, g.owner_token, g.topic, g.correlation_id,
             g.unique_key, g.headers, g.last_error, g.failures, g.payload, g.stages
        from gone g
    )
    select array_agg(g.id), min(g.lease_until) into gone_ids, lease from gone g;
  else
    with gone as (
      delete from {schema}.{queue} o using unnest(ids, epochs, rows) as u(id, epoch, row)
       where o.ctid = u.row and o.id = u.id and o.claim_epoch = u.epoch
         and o.owner_token = _{queue}_ack_rows.owner_token
         and o.lease_until > v_now
      returning o.id, o.lease_until
    )
    select array_agg(g.id), min(g.lease_until) into gone_ids, lease from gone g;
  end if;
end
$function$;

-- Marks claimed messages as done, and returns their number. This function and those below ignore a
-- message that this owner does not hold, with this epoch and an unexpired lease. keep: move the
-- messages to the archive; otherwise delete them.
--
-- rows: the places where {queue}_claim found the messages (row_at), which is faster for many
-- messages. The rows are locked in the order of the arrays: give them in the order of the ids, to
-- avoid deadlocks. If a row has moved (a renewal moves it), or is in the archive already, the ack
-- is repeated by id.
create function {schema}.{queue}_ack(
  owner_token uuid, ids uuid[], epochs bigint[], keep boolean default true, rows tid[] default null
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_ids uuid[];
  v_lease timestamptz;
  v_count integer;
begin
  perform {schema}._{queue}_check_claims(owner_token, ids, epochs);
  if rows is null then
    v_count := {schema}._{queue}_ack_by_id(owner_token, ids, epochs, keep);
    -- The other claims may be of streams.
    if v_count < cardinality(ids) then
      v_count := v_count + {schema}._{queue}_ack_streams(owner_token, ids, epochs, keep);
    end if;
    return v_count;
  elsif cardinality(rows) is distinct from cardinality(ids) then
    raise exception 'ids and rows must have the same length'
      using errcode = 'invalid_parameter_value';
  end if;
  begin
    select r.gone_ids, r.lease into v_ids, v_lease
      from {schema}._{queue}_ack_rows(owner_token, ids, epochs, rows, keep) r;
    if coalesce(cardinality(v_ids), 0) < cardinality(ids) then
      raise sqlstate 'DVT01';
    end if;
  exception when unique_violation or sqlstate 'DVT01' then
    return {schema}._{queue}_ack_by_id(owner_token, ids, epochs, keep);
  end;
  return {schema}._{queue}_acked(v_ids, v_lease);
end
$function$;
comment on function {schema}.{queue}_ack is
  'Marks claimed messages as done; returns how many claims were still held.';
