-- Subscriptions and their parts, for operators.

-- waits_since: when the oldest event that a part has not handled was appended.
create view {schema}.event_subscription_parts as
  select p.name::text as name, p.part::integer as part, p.position, p.epoch, p.owner_token,
         p.lease_until, p.attempts, p.retry_at, p.stopped_at, p.last_error, p.moved_at,
         (select e.at from (select f.position, f.no, f.n from {schema}.event_feed f
                             where f.position <= p.position + 1
                             order by f.position desc limit 1) r
            join {schema}.event e on e.no >= r.no + (p.position + 1 - r.position)
           where p.position < (select s.head from {schema}.event_feed_state s)
           order by e.no limit 1) as waits_since
    from {schema}.event_subscription_part p;
comment on view {schema}.event_subscription_parts is
  'The parts of subscriptions: position, lease, and the last failure.';

create view {schema}.event_subscriptions as
  select s.name::text as name, s.parts::integer as parts, s.next_parts::integer as next_parts,
         s.types, s.prefixes, s.on_failure, s.created_at, s.paused_at, q.position, f.head,
         greatest(f.head - q.position, 0) as lag, q.waits_since, q.stopped_at, q.attempts,
         q.last_error, q.held_parts,
         (select count(*) from {schema}.event_parked k
           where k.name = s.name and k.kind <> 'skipped') as parked
    from {schema}.event_subscription s cross join {schema}.event_feed_state f
    cross join lateral (
      select min(p.position) as position, min(p.waits_since) as waits_since,
             max(p.stopped_at) as stopped_at, max(p.attempts) as attempts,
             max(p.last_error) as last_error,
             count(*) filter (where p.lease_until > {schema}.clock())::integer as held_parts
        from {schema}.event_subscription_parts p where p.name = s.name) q;
comment on view {schema}.event_subscriptions is
  'The subscriptions, with their lag behind the last position of the feed.';

create view {schema}.event_parked_events as
  select k.name::text as name, k.position, k.stream::text as stream, k.version, k.kind, k.attempts,
         k.error, k.parked_at, k.resumed_at
    from {schema}.event_parked k;
comment on view {schema}.event_parked_events is
  'Events that a subscription has parked or skipped, and streams that wait.';
