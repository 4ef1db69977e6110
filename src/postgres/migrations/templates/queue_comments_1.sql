-- What psql shows of a queue's functions and view (\df+, \dv+).
comment on view {schema}.{queue}_messages is
  'Every message of the queue {queue}: waiting, in progress, done (while history is kept) and failed.';
comment on function {schema}.{queue}_try_enqueue is
  'Stores a message unless its id or its unique_key is known; returns its id and whether it was stored.';
comment on function {schema}.{queue}_enqueue_many is
  'Stores many messages; returns the places of those that were not stored, with the ids that are there instead.';
comment on function {schema}.{queue}_claim is
  'Leases up to batch_size messages that are due to owner_token and returns them.';
comment on function {schema}.{queue}_ack is
  'Marks claimed messages as done; returns how many claims were still held.';
comment on function {schema}.{queue}_abandon is
  'Gives claimed messages back after a failure: they are retried after a delay, or become dead letters at max_attempts.';
comment on function {schema}.{queue}_fail is
  'Makes claimed messages dead letters.';
comment on function {schema}.{queue}_snooze is
  'Gives claimed messages back without charging an attempt.';
comment on function {schema}.{queue}_renew is
  'Extends the leases of claimed messages; returns the ids that are still held.';
comment on function {schema}.{queue}_reap_expired is
  'Takes back messages whose leases have expired; returns how many.';
comment on function {schema}.{queue}_next_due is
  'The time when the next message comes due, within a day.';
comment on function {schema}.{queue}_counts is
  'How many messages are in each state, counted up to a limit, and for how long the oldest due one waits.';
comment on function {schema}.{queue}_replay is
  'Makes dead letters ready again; returns how many.';
comment on function {schema}.{queue}_purge is
  'Deletes done (2) or failed (3) messages; returns how many.';
comment on function {schema}.{queue}_pause is
  'Pauses a topic: its messages stay queued. Returns false when it was paused before.';
comment on function {schema}.{queue}_unpark is
  'Puts messages of topics that are no longer paused back into the queue; returns how many.';
comment on function {schema}.{queue}_resume is
  'Resumes a paused topic; returns false when it was not paused.';
