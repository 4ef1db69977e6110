-- Claiming work in partitions.

-- Internal. The partitions that this instance may claim from: those in which it has leases, and
-- others of its share that have work, up to max_partitions together. A stream belongs to the share
-- of the instance whose rank is its partition modulo the number of live instances. A stream that
-- has waited for help_after may be claimed by every instance.
--
-- Only the first tickets of each priority are read, and only partitions with such tickets are
-- returned: otherwise a claim would search the whole queue for them. Tickets of other instances do
-- not stay in front for longer than help_after.
create function {schema}._{queue}_work_partitions(
  owner_token uuid, partition_count integer, max_partitions integer, live integer, rank integer,
  help_after interval, topics text[]
) returns integer[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_held integer[];
begin
  v_held := array(
    select distinct {schema}.stream_partition(s.stream, _{queue}_work_partitions.partition_count)
      from {schema}.{queue}_stream s
     where s.owner_token = _{queue}_work_partitions.owner_token and s.lease_until > v_now);
  return array(
    with waiting as materialized (
      select {schema}.stream_partition(t.stream, _{queue}_work_partitions.partition_count) as part,
             min(t.ready_at) as since
        from generate_series(25, 15, -1) as lanes(lane)
       cross join lateral (
         select r.stream, r.ready_at from {schema}.{queue} r
          where r.lane = lanes.lane and r.ready_at <= v_now
            and (_{queue}_work_partitions.topics is null
                 or r.topic = any (_{queue}_work_partitions.topics))
          order by r.ready_at, r.id limit 2000) t
       group by 1
    )
    select w.part from waiting w where w.part = any (v_held)
    union all
    (select w.part from waiting w
      where w.part <> all (v_held)
        and (mod(w.part, live) = rank or w.since <= v_now - help_after)
      order by w.since
      limit greatest(0, max_partitions - cardinality(v_held))));
end
$function$;

-- Internal. The message of a claim, as an element of the result.
create function {schema}._{queue}_work_item(
  id uuid, topic text, payload text, correlation_id text, headers jsonb, created_at timestamptz,
  due_at timestamptz, expires_at timestamptz, priority smallint, attempts integer,
  claim_epoch bigint, lease_until timestamptz, lost_leases smallint, stages smallint, stream text,
  stored uuid[]
) returns jsonb
  language sql volatile
  return jsonb_build_object(
    'id', id, 'topic', topic, 'payload', payload, 'correlation_id', correlation_id,
    'headers', headers, 'created_at', {schema}._work_micros(created_at),
    'due_at', {schema}._work_micros(due_at), 'expires_at', {schema}._work_micros(expires_at),
    'priority', priority, 'attempts', attempts, 'epoch', claim_epoch,
    'lease_until', {schema}._work_micros(lease_until), 'stages', stages, 'stream', stream,
    'newly_stored', id = any (stored), 'orphaned', lost_leases > 0);

-- Internal. Claims up to batch_size messages of streams, and then messages without a stream.
-- partitions: of the streams; null for all.
create function {schema}._{queue}_work_take(
  owner_token uuid, claim jsonb, lease interval, max_attempts integer, stored uuid[],
  partitions integer[], partition_count integer
) returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_size integer := coalesce((claim->>'batch_size')::integer, 50);
  v_bytes bigint := coalesce((claim->>'max_bytes')::bigint, 67108864);
  v_topics text[] := case when jsonb_array_length(claim->'topics') > 0
                          then array(select jsonb_array_elements_text(claim->'topics')) end;
  v_only uuid[] := case when (claim->>'stored_only')::boolean then stored end;
  v_after timestamptz[];
  v_work jsonb := '[]';
  v_some jsonb;
begin
  if v_size not between 1 and 10000 then
    raise exception 'batch_size must be 1 to 10000' using errcode = 'invalid_parameter_value';
  elsif v_bytes not between 1 and 67108864 then
    raise exception 'max_bytes must be 1 to 67108864' using errcode = 'invalid_parameter_value';
  elsif v_only is not null then
    v_after := array_fill((select min(o.ready_at) from {schema}.{queue} o
                            where o.id = any (v_only)), array[11]);
  end if;
  -- Half of the batch is for streams; then the other messages; then streams in what is left.
  for v_round in 1 .. 3 loop
    continue when v_round <> 2 and partitions = '{}';
    exit when jsonb_array_length(v_work) >= v_size;
    if v_round = 2 then
      select jsonb_agg({schema}._{queue}_work_item(
               c.id, c.topic, c.payload, c.correlation_id, c.headers, c.created_at, c.due_at,
               c.expires_at, c.priority, c.attempts, c.claim_epoch, c.lease_until, c.lost_leases,
               c.stages, null, stored) order by c.priority desc, c.ready_at, c.id)
        into v_some
        from {schema}.{queue}_claim(
               owner_token, v_size - jsonb_array_length(v_work), lease, max_attempts,
               after => v_after, topics => v_topics, max_bytes => v_bytes, only_ids => v_only) c;
    else
      select jsonb_agg({schema}._{queue}_work_item(
               c.id, c.topic, c.payload, c.correlation_id, c.headers, c.created_at, c.due_at,
               c.expires_at, c.priority, c.attempts, c.claim_epoch, c.lease_until, c.lost_leases,
               c.stages, c.stream, stored))
        into v_some
        from {schema}.{queue}_claim_streams(
               owner_token,
               case v_round when 1 then (v_size + 1) / 2 else v_size - jsonb_array_length(v_work)
               end, lease, max_attempts, after => v_after, topics => v_topics,
               max_bytes => v_bytes, only_ids => v_only, partitions => partitions,
               partition_count => partition_count) c;
      -- Fewer than asked for: the third round would find nothing.
      exit when v_round = 3;
      if coalesce(jsonb_array_length(v_some), 0) < (v_size + 1) / 2 then
        partitions := '{}';
      end if;
    end if;
    v_work := v_work || coalesce(v_some, '[]');
    v_bytes := v_bytes - coalesce((select sum(octet_length(e->>'payload'))
                                     from jsonb_array_elements(v_some) as e), 0);
    v_some := null;
    exit when v_bytes <= 0;
  end loop;
  return v_work || coalesce(v_some, '[]');
end
$function$;

-- Internal. Claims work for part.claim. stored: the messages that this call has stored.
create function {schema}._{queue}_work_claim(batch jsonb, part jsonb, stored uuid[], live integer,
                                             rank integer) returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_owner uuid := (batch->>'instance')::uuid;
  v_claim jsonb := part->'claim';
  v_count integer := coalesce((batch->>'partition_count')::integer, 10000);
  v_partitions integer[];
begin
  if (v_claim->>'stored_only')::boolean and stored = '{}' then
    return '[]';
  elsif not coalesce((v_claim->>'stored_only')::boolean, false) then
    perform {schema}._{queue}_reap_streams();
    v_partitions := {schema}._{queue}_work_partitions(
      v_owner, v_count, coalesce((batch->>'max_partitions')::integer, 100), live, rank,
      {schema}._work_ms(batch, 'help_after_ms', 5000),
      case when jsonb_array_length(v_claim->'topics') > 0
           then array(select jsonb_array_elements_text(v_claim->'topics')) end);
  end if;
  return {schema}._{queue}_work_take(
    v_owner, v_claim, {schema}._work_ms(batch, 'lease_ms', 300000),
    coalesce((part->>'max_attempts')::integer, 10), stored, v_partitions, v_count);
end
$function$;
