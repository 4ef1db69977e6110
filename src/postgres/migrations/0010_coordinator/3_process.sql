-- The composite call.

-- Internal. The ids of messages that were stored.
create function {schema}._work_stored(stored jsonb) returns uuid[]
  language sql immutable
  return array(select (e->>'id')::uuid from jsonb_array_elements(stored) as e
                where e->>'outcome' = 'stored');

-- Internal. Returns the first mistake in the part of a queue: an unknown name, a claim that is no
-- object, or wrong stages. Null: none.
create function {schema}._work_check_part(queue text, part jsonb) returns text
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_names jsonb := '{"complete": ["id", "epoch", "stages"],
                     "fail": ["id", "epoch", "stages", "error", "permanent", "delay_ms"],
                     "release": ["id", "epoch", "stages"], "renew": ["id", "epoch"],
                     "store": ["id", "topic", "payload", "stream", "headers", "correlation_id",
                               "due_at", "expires_at", "delay_ms", "priority", "unique_key",
                               "is_event", "source", "message_id", "hash"]}';
  v_wrong text;
begin
  if part is null then
    return null;
  elsif part ? 'claim' and jsonb_typeof(part->'claim') <> 'object' then
    return queue || '.claim must be an object; leave it out to claim nothing';
  elsif jsonb_typeof(part->'claim'->'topics') <> 'array' then
    return queue || '.claim.topics must be an array';
  end if;
  select queue || '.' || n.key || ' must be an array' into v_wrong
    from jsonb_each(v_names) n where jsonb_typeof(part->n.key) <> 'array' limit 1;
  if v_wrong is not null then
    return v_wrong;
  end if;
  select 'unknown name in the batch: ' || queue || '.claim.' || k.name into v_wrong
    from jsonb_object_keys(coalesce(part->'claim', '{}')) as k(name)
   where k.name <> all (array['batch_size', 'stored_only', 'topics', 'max_bytes']) limit 1;
  if v_wrong is null then
    select 'unknown name in the batch: ' || queue || '.' || n.key || '.' || k.name into v_wrong
      from jsonb_each(v_names) n
     cross join lateral jsonb_array_elements(
             case when jsonb_typeof(part->n.key) = 'array' then part->n.key else '[]' end) as e
     cross join lateral jsonb_object_keys(
             case when jsonb_typeof(e) = 'object' then e else '{}' end) as k(name)
     where not n.value ? k.name limit 1;
  end if;
  if v_wrong is null then
    select queue || '.' || n.key || ': stages must be 0 to 31' into v_wrong
      from jsonb_each(v_names) n
     cross join lateral jsonb_array_elements(
             case when jsonb_typeof(part->n.key) = 'array' then part->n.key else '[]' end) as e
     where (e->>'stages')::bigint not between 0 and 31 limit 1;
  end if;
  return v_wrong;
end
$function$;

-- Internal. Raises an error if the batch is not valid. An unknown name is an error, so that a
-- typing mistake does not lose messages.
create function {schema}._work_check(batch jsonb) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_wrong text;
begin
  if batch is null or jsonb_typeof(batch) <> 'object' then
    raise exception 'the batch must be an object' using errcode = 'invalid_parameter_value';
  elsif batch->>'instance' is null then
    raise exception 'the batch needs an instance' using errcode = 'invalid_parameter_value';
  elsif jsonb_typeof(batch->'outbox') <> 'object' or jsonb_typeof(batch->'inbox') <> 'object' then
    raise exception 'outbox and inbox must be objects' using errcode = 'invalid_parameter_value';
  end if;
  select 'unknown name in the batch: ' || k.name into v_wrong
    from (select jsonb_object_keys(batch) as name) k
   where k.name <> all (array['instance', 'host', 'pid', 'version', 'lease_ms', 'stale_after_ms',
                              'help_after_ms', 'partition_count', 'max_partitions', 'outbox',
                              'inbox', 'notify'])
   limit 1;
  if v_wrong is null then
    select 'unknown name in the batch: ' || q.name || '.' || k.name into v_wrong
      from unnest(array['outbox', 'inbox']) as q(name),
           jsonb_object_keys(case when batch ? q.name then batch->q.name else '{}' end) as k(name)
     where k.name <> all (array['complete', 'fail', 'release', 'renew', 'store', 'fresh', 'claim',
                                'keep_done', 'max_attempts', 'on_stream_failure'])
     limit 1;
  end if;
  if v_wrong is null then
    v_wrong := coalesce({schema}._work_check_part('outbox', batch->'outbox'),
                        {schema}._work_check_part('inbox', batch->'inbox'));
  end if;
  if v_wrong is null and coalesce((batch->>'partition_count')::integer, 1) not between 1 and 1000000
  then
    v_wrong := 'partition_count must be 1 to 1000000';
  elsif v_wrong is null and coalesce((batch->>'max_partitions')::integer, 1) < 1 then
    v_wrong := 'max_partitions must be at least 1';
  end if;
  if v_wrong is not null then
    raise exception '%', v_wrong using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- Internal. The steps of the batch before its claims, for both queues. Parts that are absent cost
-- nothing.
create function {schema}._work_before_claims(batch jsonb, out result jsonb)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_owner uuid := (batch->>'instance')::uuid;
  v_lease interval := {schema}._work_ms(batch, 'lease_ms', 300000);
  v_outbox jsonb := coalesce(batch->'outbox', '{}');
  v_inbox jsonb := coalesce(batch->'inbox', '{}');
  v_results text[] := array['complete', 'fail', 'release'];
  v_notify boolean := coalesce((batch->>'notify')::boolean, true);
begin
  result := '{"outbox": {}, "inbox": {}}';
  if v_outbox ?| v_results then
    result := jsonb_set(result, '{outbox}', {schema}._outbox_work_settle(v_owner, v_outbox));
  end if;
  if v_inbox ?| v_results then
    result := jsonb_set(result, '{inbox}', {schema}._inbox_work_settle(v_owner, v_inbox));
  end if;
  if v_outbox ? 'store' then
    result := jsonb_set(result, '{outbox,stored}', coalesce({schema}._outbox_work_store(
      v_outbox->'store', coalesce((v_outbox->>'fresh')::boolean, false), v_notify), '[]'));
  end if;
  if v_inbox ? 'store' then
    result := jsonb_set(result, '{inbox,stored}',
                        {schema}._inbox_work_store(v_inbox->'store', v_notify));
  end if;
  if v_notify and v_outbox ?| array['fail', 'release'] then
    perform {schema}._wake('outbox');
  end if;
  if v_notify and v_inbox ?| array['fail', 'release'] then
    perform {schema}._wake('inbox');
  end if;
  if v_outbox ? 'renew' then
    result := jsonb_set(result, '{outbox,not_renewed}',
                        {schema}._outbox_work_renew(v_owner, v_outbox, v_lease));
  end if;
  if v_inbox ? 'renew' then
    result := jsonb_set(result, '{inbox,not_renewed}',
                        {schema}._inbox_work_renew(v_owner, v_inbox, v_lease));
  end if;
end
$function$;

-- Reports results, stores messages and events, renews leases, renews the heartbeat of the instance,
-- and claims work, in this order and in one transaction. docs/coordinator.md describes the batch
-- and the result. Every part may be absent. Storing does not claim: work is claimed only for the
-- parts outbox.claim and inbox.claim, and exactly the messages in the result are leased.
create function {schema}.process_work_batch(batch jsonb) returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_result jsonb;
  v_claims boolean;
  v_share record;
  v_of_inbox record;
  v_stale integer := 0;
  v_id uuid;
begin
  perform {schema}._work_check(batch);
  v_id := (batch->>'instance')::uuid;
  v_result := {schema}._work_before_claims(batch);
  v_claims := (batch->'outbox' ? 'claim'
               and not coalesce((batch#>>'{outbox,claim,stored_only}')::boolean, false))
              or (batch->'inbox' ? 'claim'
                  and not coalesce((batch#>>'{inbox,claim,stored_only}')::boolean, false));
  perform {schema}._work_beat(batch, coalesce(v_claims, false));
  if v_claims then
    v_stale := {schema}._work_remove_stale(v_id);
  end if;
  if batch->'outbox' ? 'claim' then
    select * into v_share from {schema}._work_share(v_id, 'outbox');
    v_result := jsonb_set(v_result, '{outbox,work}', {schema}._outbox_work_claim(
      batch, batch->'outbox', {schema}._work_stored(v_result#>'{outbox,stored}'), v_share.live,
      v_share.rank));
  end if;
  if batch->'inbox' ? 'claim' then
    select * into v_of_inbox from {schema}._work_share(v_id, 'inbox');
    v_result := jsonb_set(v_result, '{inbox,work}', {schema}._inbox_work_claim(
      batch, batch->'inbox', {schema}._work_stored(v_result#>'{inbox,stored}'), v_of_inbox.live,
      v_of_inbox.rank));
  end if;
  if v_claims then
    if coalesce((batch#>>'{outbox,claim,stored_only}')::boolean, not batch->'outbox' ? 'claim',
                true) then
      v_share := v_of_inbox;
    end if;
    v_result := v_result || jsonb_build_object('instance', jsonb_build_object(
      'live', v_share.live, 'rank', v_share.rank, 'stale_removed', v_stale,
      'partitions', (coalesce((batch->>'partition_count')::integer, 10000) - v_share.rank
                     + v_share.live - 1) / v_share.live));
  end if;
  return v_result;
end
$function$;
comment on function {schema}.process_work_batch is
  'Reports results, stores messages and events, renews leases and claims work, in one transaction.';
