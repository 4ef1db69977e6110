-- Messages of the outbox. Times are microseconds since 1970; the time that decides is bound by the store, from the
-- one clock of this machine.

-- name: outbox_enqueue
insert into {schema}_outbox (id, topic, payload, correlation_id, due_at, created_at)
values (?1, ?2, ?3, ?4, coalesce(?5, ?6), ?6)
on conflict (id) do nothing;

-- name: outbox_enqueue_many
insert into {schema}_outbox (id, topic, payload, correlation_id, due_at, created_at)
values (?1, ?2, ?3, ?4, ?5, ?5);

-- name: outbox_enqueue_many_scheduled
insert into {schema}_outbox (id, topic, payload, correlation_id, due_at, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6);

-- name: outbox_claim
-- What ran out of its lease comes first, and is charged an attempt.
update {schema}_outbox
   set status = 1, owner_token = ?1, claim_epoch = claim_epoch + 1, attempts = attempts + (status = 1),
       lease_until = ?4
 where seq in (select seq from (
                 select seq from {schema}_outbox
                  where status = 1 and lease_until <= ?3 order by lease_until limit ?2)
               union all
               select seq from (
                 select seq from {schema}_outbox
                  where status = 0 and due_at <= ?3 order by due_at, seq limit ?2)
               limit ?2)
returning id, topic, payload, correlation_id, created_at, due_at, attempts, claim_epoch, lease_until;

-- name: outbox_ack
update {schema}_outbox
   set status = 2, processed_at = ?4, processed_by = owner_token, owner_token = null, lease_until = null
 where id = ?2 and claim_epoch = ?3 and status = 1 and owner_token = ?1 and lease_until > ?4;

-- name: outbox_counts
select (select count(*) from (select 1 from {schema}_outbox where status = 0 and due_at <= ?2 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox where status = 0 and due_at > ?2 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox where status = 1 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox where status = 2 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox where status = 3 limit ?1)),
       (select ?2 - min(due_at) from {schema}_outbox where status = 0 and due_at <= ?2);
