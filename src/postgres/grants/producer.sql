-- Enqueue messages into the outbox, schedule timers and append events, and nothing else: the role
-- cannot read payloads or events, nor claim, change or delete messages. Run it again after an
-- upgrade.
grant usage on schema {schema} to {role};
grant select on {schema}.schema_migrations to {role};
grant insert on {schema}.outbox, {schema}.timers to {role};
grant select (id, unique_key, lane, ready_at, lease_until) on {schema}.outbox,
{schema}.timers to {role};
grant select (id) on {schema}.outbox_archive, {schema}.timers_archive to {role};
grant usage on sequence {schema}.outbox_seq, {schema}.event_no to {role};
grant insert on {schema}.event_stream, {schema}.event to {role};
grant select (no, key, version, closed_at), update (version) on {schema}.event_stream to {role};
grant select (id, key, version) on {schema}.event to {role};
grant execute on function {schema}.clock, {schema}.uuid_v7, {schema}._wake, {schema}._queue_check,
  {schema}.outbox_try_enqueue, {schema}.outbox_enqueue, {schema}.outbox_enqueue_many,
  {schema}._outbox_drop_known, {schema}._outbox_enqueue_streams, {schema}.timers_try_enqueue,
  {schema}.timers_schedule, {schema}._timers_drop_known,
  {schema}._event_check, {schema}._event_lock, {schema}.event_try_append,
  {schema}.event_try_append_many, {schema}.event_append to {role};
