-- One-time timers: a queue of messages that enter the outbox when their time comes.

-- template: queue_1 queue=timers
