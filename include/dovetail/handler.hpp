// Handlers: what is done with a message.
//
//   platform.on("email.send", [](const dovetail::Message& message, dovetail::HandlerContext& ctx) {
//   … });
//
// How a handler ends decides what becomes of its message:
//   * it returns                     done
//   * it returns after ctx.snooze()  tried again later, free of charge (or ctx.commit_and_snooze())
//   * it throws                      tried again after a backoff; a dead letter when its attempts
//   are used up
//   * it throws PermanentFailure     a dead letter at once
//   * its process dies               tried again when the lease ends, and charged an attempt
//
// Guarantees
//   * A handler never runs twice at the same time for one message, as long as it ends when its
//   stop_token
//     fires: that is before the lease can be lost.
//   * What is written through ctx.transaction() commits together with the message's ack, or not at
//   all:
//     exactly once. Everything else a handler does happens at least once, so make it idempotent.
//
// Threads: a handler is called from several threads at once, for different messages, unless its
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

/// Thrown by a handler: no further try will help. Its text becomes the dead letter's error.
class PermanentFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a handler is given beside its message; valid during the call.
class HandlerContext {
 public:
  virtual ~HandlerContext() = default;

  /// Fires shortly before the lease is lost (the database did not let us renew it), when the
  /// handler's time is up, and at shutdown. Return or throw soon after; at shutdown a throw costs
  /// the message no attempt.
  [[nodiscard]] virtual std::stop_token stop_token() const = 0;

  /// Grows with every claim of the message: a fencing token for systems of your own.
  [[nodiscard]] virtual std::int64_t epoch() const = 0;

  /// A transaction that commits together with the ack when the handler returns, and is rolled back
  /// when it throws or snoozes, or when the lease was lost meanwhile. It is begun by the first
  /// call. Messages enqueued through it are follow-ups that appear exactly once. It is not yours to
  /// commit.
  [[nodiscard]] virtual Transaction& transaction() = 0;

  /// Not now: the message comes back after `delay`, and no attempt is charged. Takes effect when
  /// the handler returns.
  virtual void snooze(std::chrono::milliseconds delay) = 0;

  /// The same, and what was written through transaction() stays: it commits together with the
  /// snooze when the handler returns, or is rolled back when the lease was lost meanwhile. For work
  /// in stages.
  virtual void commit_and_snooze(std::chrono::milliseconds delay) = 0;
};

struct HandlerOptions {
  /// How many messages this process hands to it at the same time; zero: as many as there are
  /// threads.
  int concurrency = 0;
  /// After how many failed tries its messages become dead letters; absent:
  /// QueueOptions::max_attempts.
  std::optional<int> max_attempts{};
  /// How long to wait before the next try, by the number of failed ones (1, 2, …). Absent: 2 s, 4 s
  /// … 60 s, less up to 10 %. When it throws, the default is used.
  std::function<std::chrono::milliseconds(int attempts)> backoff{};
  /// How long a call may take; zero: as long as it wants. Then the stop_token fires; a handler that
  /// has not ended one lease later has lost its message.
  std::chrono::milliseconds timeout = std::chrono::minutes{10};
};

using HandlerFunction = std::function<void(const Message& message, HandlerContext& context)>;

using InboxHandlerFunction =
    std::function<void(const InboxMessage& message, HandlerContext& context)>;

/// A handler as a class, for those that carry state.
class Handler {
 public:
  virtual ~Handler() = default;
  [[nodiscard]] virtual std::string topic() const = 0;
  virtual void handle(const Message& message, HandlerContext& context) = 0;
  [[nodiscard]] virtual HandlerOptions options() const { return {}; }
};

}  // namespace dovetail
