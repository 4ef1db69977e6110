-- Stages: bits that say what has succeeded for a message, so that a retry begins with the rest.
--   1 stored, 2 event_stored, 4 published, 8 receptor_processed, 16 perspective_processed
-- A message keeps them until its end, in the archive, and when it is replayed.

-- Internal. Adds stages to claimed messages, which stay locked. Ignores claims that this owner does
-- not hold. Returns the number of the others.
create function {schema}._{queue}_set_stages(owner_token uuid, ids uuid[], epochs bigint[],
                                             stages integer[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
declare
  v_rows tid[] := {schema}._{queue}_lock_claims(owner_token, ids, epochs);
begin
  if cardinality(v_rows) < cardinality(ids) then
    v_rows := v_rows || {schema}._{queue}_lock_stream_claims(owner_token, ids, epochs);
  end if;
  if v_rows <> '{}' then
    update {schema}.{queue} o set stages = (o.stages | n.stages)::smallint
      from (select u.id, bit_or(u.stages) as stages
              from unnest(ids, _{queue}_set_stages.stages) as u(id, stages) group by u.id) n
     where o.id = n.id and o.ctid = any (v_rows) and (o.stages | n.stages) <> o.stages;
  end if;
  return cardinality(v_rows);
end
$function$;
