// One call of a handler, from the message to what becomes of it.
#pragma once

#include <optional>
#include <string>

#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "runtime/job.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {

/// What invocations share.
struct InvocationScope {
  storage::Database& database;
  storage::QueueConsumer& store;
  std::string prefix;  // of events: "outbox."
  OwnerToken owner;
  bool keep_done = true;
  Logger log;
  Metrics metrics;

  [[nodiscard]] std::string event(std::string_view what) const {
    return prefix + std::string{what};
  }
};

/// Calls the handler and answers how to settle the message; nothing when that has happened with the
/// handler's own transaction, or when the lease was lost.
[[nodiscard]] std::optional<storage::Settlement> invoke(const InvocationScope& scope, Job& job);

/// How to settle a message that failed with `error`.
[[nodiscard]] storage::Settlement failed_try(const RegisteredHandler& handler, const Claim& claim,
                                             int attempts, std::string_view error);

}  // namespace dovetail::runtime
