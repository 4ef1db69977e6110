-- The parts of the work coordinator that concern one queue.

-- Internal. Lets the leases of these owners expire: of messages, and of streams. The next claim
-- takes them back, and charges an attempt. The owners are dead, so that this happens rarely, and
-- reads the whole queue.
create function {schema}._{queue}_expire_leases(owners uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[];
begin
  v_rows := array(select o.ctid from {schema}.{queue} o
                   where o.owner_token = any (owners) and o.lease_until > {schema}.clock()
                   order by o.id for no key update skip locked);
  update {schema}.{queue} o set lease_until = {schema}.clock() where o.ctid = any (v_rows);
  v_rows := array(select s.ctid from {schema}.{queue}_stream s
                   where s.owner_token = any (owners) and s.lease_until > {schema}.clock()
                   order by s.stream for update skip locked);
  update {schema}.{queue}_stream s set lease_until = {schema}.clock() where s.ctid = any (v_rows);
  perform {schema}._wake('{queue}');
end
$function$;

-- Internal. Reports the results of claims: part.complete, part.fail and part.release are arrays of
-- {id, epoch, stages}; a failure also has error, permanent and delay_ms. All messages are locked
-- first, in the order of their ids. A claim that this owner does not hold is ignored, and returned
-- in lost. If a claim appears twice, the first of complete, fail, release counts.
create function {schema}._{queue}_work_settle(owner_token uuid, part jsonb) returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_ids uuid[];
  v_epochs bigint[];
  v_stages integer[];
  v_held uuid[];
  v_each record;
  v_completed integer := 0;
  v_failed integer := 0;
  v_released integer := 0;
begin
  select array_agg((e->>'id')::uuid), array_agg((e->>'epoch')::bigint),
         array_agg(coalesce((e->>'stages')::integer, 0))
    into v_ids, v_epochs, v_stages
    from jsonb_array_elements(coalesce(part->'complete', '[]') || coalesce(part->'fail', '[]')
                              || coalesce(part->'release', '[]')) as e;
  if array_position(v_ids, null) is not null or array_position(v_epochs, null) is not null then
    raise exception 'a result needs an id and an epoch' using errcode = 'invalid_parameter_value';
  end if;
  v_held := {schema}._{queue}_work_lock(owner_token, v_ids, v_epochs);
  perform {schema}._{queue}_set_stages(owner_token, v_ids, v_epochs, v_stages);
  select {schema}.{queue}_ack(owner_token, array_agg(c.id order by c.id),
                              array_agg(c.epoch order by c.id),
                              coalesce((part->>'keep_done')::boolean, true))
    into v_completed
    from (select distinct (e->>'id')::uuid as id, (e->>'epoch')::bigint as epoch
            from jsonb_array_elements(part->'complete') as e) c
  having count(*) > 0;
  for v_each in
    select (e->>'id')::uuid as id, (e->>'epoch')::bigint as epoch,
           coalesce(nullif(e->>'error', ''), 'failed') as error,
           coalesce((e->>'permanent')::boolean, false) as permanent,
           (e->>'delay_ms')::bigint * interval '1 millisecond' as delay
      from jsonb_array_elements(part->'fail') as e
     order by 1
  loop
    v_failed := v_failed + case when v_each.permanent then
      {schema}.{queue}_fail(owner_token, array[v_each.id], array[v_each.epoch],
                            left(v_each.error, 2048), 1,
                            coalesce(part->>'on_stream_failure', 'block'))
    else
      {schema}.{queue}_abandon(owner_token, array[v_each.id], array[v_each.epoch], v_each.error,
                               v_each.delay, coalesce((part->>'max_attempts')::integer, 10),
                               coalesce(part->>'on_stream_failure', 'block'))
    end;
  end loop;
  select {schema}.{queue}_snooze(owner_token, array_agg(c.id order by c.id),
                                 array_agg(c.epoch order by c.id))
    into v_released
    from (select distinct (e->>'id')::uuid as id, (e->>'epoch')::bigint as epoch
            from jsonb_array_elements(part->'release') as e) c
  having count(*) > 0;
  return jsonb_build_object(
    'completed', coalesce(v_completed, 0), 'failed', v_failed, 'released', coalesce(v_released, 0),
    'lost', (select coalesce(jsonb_agg(distinct u.id), '[]') from unnest(v_ids) as u(id)
              where u.id <> all (v_held)));
end
$function$;

-- Internal. Locks the messages of these claims, the rows that their ends change, and their streams.
-- Returns the messages that this owner holds.
create function {schema}._{queue}_work_lock(owner_token uuid, ids uuid[], epochs bigint[])
  returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
  v_held uuid[];
begin
  if cardinality(v_rows) < cardinality(ids) then
    v_rows := v_rows || {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs);
  end if;
  v_held := array(select o.id from {schema}.{queue} o where o.ctid = any (v_rows) order by o.id);
  if v_held <> '{}' then
    perform {schema}._{queue}_lock_ends(v_held, true);
    perform {schema}._{queue}_lock_streams_of(v_held);
  end if;
  return v_held;
end
$function$;

-- Internal. Renews the leases of part.renew, and returns the messages that are not held.
create function {schema}._{queue}_work_renew(owner_token uuid, part jsonb, lease interval)
  returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_ids uuid[];
  v_epochs bigint[];
  v_held uuid[];
begin
  select array_agg((e->>'id')::uuid), array_agg((e->>'epoch')::bigint) into v_ids, v_epochs
    from jsonb_array_elements(part->'renew') as e;
  v_held := array(select {schema}.{queue}_renew(owner_token, v_ids, v_epochs, lease));
  return (select coalesce(jsonb_agg(distinct u.id), '[]') from unnest(v_ids) as u(id)
           where u.id <> all (v_held));
end
$function$;
