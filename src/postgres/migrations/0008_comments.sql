-- What psql shows of the functions and views that are the contract (\df+, \dv+). Functions without a comment begin with an
-- underscore and are internal; so are all tables.

-- Only its owner may comment on a schema: it may have been created by somebody else.
do $block$
begin
  if exists (select from pg_catalog.pg_namespace n
              where n.nspname = pg_catalog.replace('{schema}', '"', '') and pg_catalog.pg_has_role(n.nspowner, 'usage')
                and pg_catalog.obj_description(n.oid, 'pg_namespace') is null) then
    execute 'comment on schema {schema} is ''Dovetail: reliable background work. Functions and views are the contract.''';
  end if;
end
$block$;

-- template: queue_comments_1 queue=outbox

-- template: queue_comments_1 queue=inbox

-- template: queue_comments_1 queue=timers

comment on function {schema}.clock is
  'The time by which everything durable is decided.';
comment on function {schema}.uuid_v7 is
  'A time-ordered UUID (version 7).';
comment on function {schema}.outbox_enqueue is
  'Stores a message in the outbox and returns its id; see outbox_try_enqueue.';

comment on view {schema}.outbox_joins is
  'Joins: how many steps they expect, how many have ended, and their status.';
comment on view {schema}.outbox_join_members is
  'The messages that are steps of joins.';
comment on function {schema}.outbox_join_start is
  'Starts a join that expects a number of steps; returns its id.';
comment on function {schema}.outbox_join_try_attach is
  'Makes messages steps of joins, and tells which joins or messages do not exist.';
comment on function {schema}.outbox_join_attach is
  'Makes a message a step of a join; returns false when it was one before.';
comment on function {schema}.outbox_join_report is
  'Reports the end of a step: 1 completed, 2 failed. Returns whether it was the first.';
comment on function {schema}.outbox_join_cancel is
  'Cancels a pending join: nothing follows it.';
comment on function {schema}.outbox_join_fail_overdue is
  'Fails pending joins whose deadline has passed; returns how many.';
comment on function {schema}.outbox_join_await is
  'Notes that a message waits for the end of a join, which then makes it ready.';
comment on function {schema}.outbox_join_wait is
  'For the handler of messages that wait for a join: its state, and when to look again.';
comment on function {schema}.outbox_join_purge is
  'Deletes joins that ended before a time and for which no message waits; returns how many.';

comment on view {schema}.leases is
  'Leases that are held.';
comment on function {schema}.lease_try_acquire is
  'Takes the lease of a name, or one of its slots, unless it is held; returns it with its fencing token, or no row.';
comment on function {schema}.lease_renew is
  'Extends a held lease; returns its new end, or null when it is no longer held.';
comment on function {schema}.lease_release is
  'Gives a lease back; returns whether it was still held.';
comment on function {schema}.lease_purge is
  'Deletes leases that expired before a time; returns how many.';

comment on view {schema}.inbox_seen is
  'Messages that were received: by source and message id, with their state.';
comment on function {schema}.inbox_already_processed is
  'Notes a message as seen and returns whether it was processed before.';
comment on function {schema}.inbox_try_begin is
  'Begins to process a received message; answers started to exactly one caller.';
comment on function {schema}.inbox_mark_processing is
  'Marks a received message as being processed.';
comment on function {schema}.inbox_mark_processed is
  'Marks a received message as processed.';
comment on function {schema}.inbox_mark_dead is
  'Marks a received message as dead: it is not processed again.';
comment on function {schema}.inbox_release is
  'Gives a message whose processing has begun back, for another try.';
comment on function {schema}.inbox_renew_ticket is
  'Extends the lease of a message that is being processed; returns its new end, or null.';
comment on function {schema}.inbox_enqueue is
  'Stores a received message for a handler, once per source and message id.';
comment on function {schema}.inbox_replay_dead_letters is
  'Lets dead messages be processed again; returns how many.';
comment on function {schema}.inbox_purge_dead_letters is
  'Deletes dead messages; returns how many.';
comment on function {schema}.inbox_purge_old is
  'Deletes what is remembered of messages that were last seen before a time; returns how many.';

comment on function {schema}.timers_schedule is
  'Stores a timer: at due_at, or after delay, it becomes a message of the outbox. Returns its id.';
comment on function {schema}.timers_cancel is
  'Removes a timer that has not fired; returns whether there was one.';
comment on function {schema}.timers_reschedule is
  'Changes the time of a timer that has not fired; returns whether there was one.';

comment on view {schema}.jobs is
  'Cron jobs, with the time when they are due next and the result of their last run.';
comment on view {schema}.job_runs is
  'Runs of cron jobs; the message of a run has its id.';
comment on function {schema}.jobs_create_or_update is
  'Creates a cron job or changes it; returns its id.';
comment on function {schema}.jobs_trigger is
  'Runs a job now, beside its schedule; returns the id of the run, or null when there is no such job.';
comment on function {schema}.jobs_enable is
  'Lets a job run by its schedule; returns false when there is no such job.';
comment on function {schema}.jobs_disable is
  'Stops the schedule of a job; returns false when there is no such job.';
comment on function {schema}.jobs_remove is
  'Removes a job and its runs that have not begun; returns false when there is no such job.';
comment on view {schema}.instances is
  'Processes that work on this database, with their heartbeats, queues and topics.';
comment on function {schema}.outbox_join_try_start is
  'Creates a join; returns its id and whether it was created.';
comment on function {schema}.outbox_join_catch_up is
  'Counts steps and wakes waiting messages that transactions had to leave undone; returns how many.';
