-- Locking messages whose streams are leased, for their settlements.

-- The rows of these claims whose streams are this owner's, with this epoch, within their leases.
-- They are locked in the order of their ids. A message that stays in its stream after a settlement
-- gets the epoch of the lease, so that a second settlement of the same claim finds nothing.
--
-- The lease is read by the name of the stream, for each message. With a join, the planner could
-- begin with all leases, and compare each with each message.
create function {schema}._{queue}_lock_stream_claims(
  owner_token uuid, ids uuid[], epochs bigint[], wait boolean default true
) returns tid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  if wait then
    return array(
    select o.ctid from {schema}.{queue} o
     where o.id = any (ids)
       and ((o.id, (select s.epoch from {schema}.{queue}_stream s
                     where s.stream = o.stream and o.seq <= s.run_to
                       and s.owner_token = _{queue}_lock_stream_claims.owner_token
                       and s.lease_until > v_now and o.claim_epoch <> s.epoch))
            in (select u.id, u.epoch from unnest(ids, epochs) as u(id, epoch))) is true
     order by o.id
       for update of o);
  end if;
  return array(
    select o.ctid from {schema}.{queue} o
     where o.id = any (ids)
       and ((o.id, (select s.epoch from {schema}.{queue}_stream s
                     where s.stream = o.stream and o.seq <= s.run_to
                       and s.owner_token = _{queue}_lock_stream_claims.owner_token
                       and s.lease_until > v_now and o.claim_epoch <> s.epoch))
            in (select u.id, u.epoch from unnest(ids, epochs) as u(id, epoch))) is true
     order by o.id
       for update of o skip locked);
end
$function$;

-- Locks the streams of these messages, in the order of their names. Returns how many there are.
create function {schema}._{queue}_lock_streams_of(ids uuid[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_streams text[] := array(select distinct o.stream::text from {schema}.{queue} o
                             where o.id = any (ids) and o.stream is not null);
begin
  perform from {schema}.{queue}_stream s where s.stream = any (v_streams) order by s.stream
     for update;
  return cardinality(v_streams);
end
$function$;
