-- Messages of the outbox. What each statement does is decided by the functions of the schema, which any language may
-- call (migrations/): here they are only called.

-- name: outbox_enqueue
select {schema}.outbox_enqueue(topic => $2::text, payload => $3::text, message_id => $1::uuid,
                               correlation_id => $4::text, due_at => $5::timestamptz);

-- name: outbox_enqueue_many
copy {schema}.outbox (id, topic, payload, correlation_id) from stdin (format binary);

-- name: outbox_enqueue_many_scheduled
copy {schema}.outbox (id, topic, payload, correlation_id, due_at) from stdin (format binary);

-- name: outbox_claim
select id, topic, payload, correlation_id, created_at, due_at, attempts, claim_epoch, lease_until
  from {schema}.outbox_claim(owner_token => $1::uuid, batch_size => $2::integer,
                             lease => $3::bigint * interval '1 microsecond')
 order by due_at, id;

-- name: outbox_ack
select {schema}.outbox_ack(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[]);

-- name: outbox_counts
with clock as materialized (select {schema}.clock() as now)
select (select count(*) from (select from {schema}.outbox, clock
                               where status = 0 and due_at <= now limit $1::bigint) due),
       (select count(*) from (select from {schema}.outbox, clock
                               where status = 0 and due_at > now limit $1::bigint) scheduled),
       (select count(*) from (select from {schema}.outbox where status = 1 limit $1::bigint) in_progress),
       (select count(*) from (select from {schema}.outbox where status = 2 limit $1::bigint) done),
       (select count(*) from (select from {schema}.outbox where status = 3 limit $1::bigint) failed),
       (select (extract(epoch from now - min(due_at)) * 1000000)::bigint from {schema}.outbox, clock
         where status = 0 and due_at <= now group by now);
