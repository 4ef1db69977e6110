// The pages and their addresses.
import { Audit } from './audit.js';
import { Databases } from './databases.js';
import { DeadLetters } from './dead_letters.js';
import { EventStream, EventStreams } from './event_streams.js';
import { Fanout, Fanouts } from './fanouts.js';
import { Find } from './find.js';
import { Instances } from './instances.js';
import { Job } from './job.js';
import { Jobs } from './jobs.js';
import { Join } from './join.js';
import { Joins } from './joins.js';
import { Leases } from './leases.js';
import { Message } from './message.js';
import { Messages } from './messages.js';
import { Overview } from './overview.js';
import { Queue } from './queue.js';
import { Streams } from './streams.js';
import { Subscription } from './subscription.js';
import { Subscriptions } from './subscriptions.js';
import { Timer, Timers } from './timers.js';

export const routes = [
  ['/', Overview],
  ['/find', Find],
  ['/queues', Queue],
  ['/queues/:queue', Queue],
  ['/messages', Messages],
  ['/messages/:id', Message],
  ['/dead-letters', DeadLetters],
  ['/joins', Joins],
  ['/joins/:id', Join],
  ['/streams', Streams],
  ['/timers', Timers],
  ['/timers/:id', Timer],
  ['/jobs', Jobs],
  ['/jobs/:name', Job],
  ['/fanouts', Fanouts],
  ['/fanouts/:topic', Fanout],
  ['/event-streams', EventStreams],
  ['/event-streams/:stream', EventStream],
  ['/subscriptions', Subscriptions],
  ['/subscriptions/:name', Subscription],
  ['/instances', Instances],
  ['/leases', Leases],
  ['/databases', Databases],
  ['/audit', Audit],
];
