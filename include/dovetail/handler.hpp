// Handlers: functions that process messages.
//
//   platform.on("email.send", [](const dovetail::Message& message,
//                                dovetail::HandlerContext& ctx) { … });
//
// The end of a handler decides what happens to its message:
//   * it returns                     ack: the message is done
//   * it returns after ctx.snooze()  retry after the delay; no attempt is charged
//                                    (also ctx.commit_and_snooze())
//   * it throws                      retry after a backoff; a dead letter after the last attempt
//   * it throws PermanentFailure     a dead letter at once
//   * its process dies               retry when the lease expires; an attempt is charged
//
// Guarantees
//   * A handler never runs twice at the same time for one message, as long as it ends when its
//     stop_token fires. The token fires before the lease can be lost.
//   * Writes through ctx.transaction() commit together with the message's ack, or not at all: they
//     take effect exactly once. All other effects of a handler happen at least once, so make them
//     idempotent.
//
// Threads: several threads may call a handler at the same time, for different messages, unless its
// `concurrency` is 1.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "dovetail/inbox.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

/// Thrown by a handler when a retry cannot help. The text becomes the dead letter's error.
class PermanentFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The context of one handler call. It is valid during the call.
class HandlerContext {
 public:
  virtual ~HandlerContext() = default;

  /// Fires shortly before the lease is lost (renewals failed), when the handler's timeout ends, and
  /// at shutdown. It is a shutdown, too, when the database leaves its PlatformGroup or is replaced.
  /// Return or throw soon after that. At shutdown, a throw charges no attempt.
  [[nodiscard]] virtual std::stop_token stop_token() const = 0;

  /// The database that the message comes from: its key in a PlatformGroup, otherwise
  /// Platform::name().
  [[nodiscard]] virtual const std::string& database() const = 0;

  /// Increases with every claim of the message. Use it as a fencing token for other systems.
  [[nodiscard]] virtual std::int64_t epoch() const = 0;

  /// A transaction that commits together with the ack when the handler returns. It is rolled back
  /// when the handler throws or snoozes, or when the lease was lost. The first call begins it.
  /// Messages enqueued through it appear exactly once. The handler must not commit it.
  ///
  /// Begin it late. On SQLite it excludes all other writers, of this process and of others, until
  /// the handler returns. On PostgreSQL it holds a connection and its locks.
  [[nodiscard]] virtual Transaction& transaction() = 0;

  /// The message becomes ready again after `delay`, and no attempt is charged. Takes effect when
  /// the handler returns.
  virtual void snooze(std::chrono::milliseconds delay) = 0;

  /// Like snooze(), but the writes through transaction() commit together with the snooze when the
  /// handler returns. They are rolled back when the lease was lost. Use it for work in stages.
  virtual void commit_and_snooze(std::chrono::milliseconds delay) = 0;

  /// What has succeeded for the message, in earlier attempts and in this one; see stage.hpp.
  [[nodiscard]] virtual Stages stages() const = 0;

  /// Records that stages have succeeded, so that a retry can skip them. It is durable on return. If
  /// transaction() was called before, the stages commit or roll back with that transaction. Returns
  /// false and records nothing if the lease was lost.
  virtual bool stage_done(Stages stages) = 0;
};

struct HandlerOptions {
  /// Concurrency limit: the number of messages that this process passes to the handler at the same
  /// time. Zero: the number of threads.
  int concurrency = 0;
  /// The number of failed attempts after which a message becomes a dead letter. Absent:
  /// QueueOptions::max_attempts.
  ///
  /// If a worker is killed, each message that it held loses its lease, and that counts as an
  /// attempt. This includes messages that waited for a free thread: no other process can know that
  /// their handlers did not begin. So with max_attempts = 1, a message may become a dead letter
  /// without a call. If that matters, set 2 or more, or limit `concurrency`, so that the worker
  /// holds few messages ahead.
  std::optional<int> max_attempts{};
  /// The delay before the next attempt, by the number of failed attempts (1, 2, …). Absent, or if
  /// the function throws: 2 s, 4 s … 60 s, minus up to 10 %.
  std::function<std::chrono::milliseconds(int attempts)> backoff{};
  /// The time limit of one call; zero: no limit. When it ends, the stop_token fires. A handler that
  /// has not ended one lease later has lost its message.
  std::chrono::milliseconds timeout = std::chrono::minutes{10};
  /// What happens to a stream when one of its messages has failed permanently.
  StreamFailure on_stream_failure = StreamFailure::block;
};

using HandlerFunction = std::function<void(const Message& message, HandlerContext& context)>;

using InboxHandlerFunction =
    std::function<void(const InboxMessage& message, HandlerContext& context)>;

/// A handler as a class, for handlers with state.
class Handler {
 public:
  virtual ~Handler() = default;
  [[nodiscard]] virtual std::string topic() const = 0;
  virtual void handle(const Message& message, HandlerContext& context) = 0;
  [[nodiscard]] virtual HandlerOptions options() const { return {}; }
};

}  // namespace dovetail
