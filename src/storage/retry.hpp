// Repeats a transaction after a failure that a retry may repair.
#pragma once

#include <functional>
#include <memory>

#include "dovetail/backoff.hpp"
#include "dovetail/clock.hpp"
#include "dovetail/error.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/database.hpp"

namespace dovetail::storage {

struct RetryPolicy {
  int max_attempts = 10;
  std::chrono::milliseconds patience{30'000};  // no attempt starts later than this
  FullJitterBackoff backoff{.initial = std::chrono::milliseconds{5},
                            .cap = std::chrono::milliseconds{1'000}};
  const Metrics* metrics = nullptr;  // counts retries; null: they are not counted
  std::string_view store{};          // the label of the counter
};

/// Returns whether a transaction that failed with `error` may run again.
[[nodiscard]] bool may_retry(const Error& error, const WriteOptions& options);

/// Calls `run` until it succeeds, fails permanently, or `policy` or `options.stop` ends the
/// retries; then throws the last error.
void run_with_retry(Clock& clock, const Logger& log, const RetryPolicy& policy,
                    const WriteOptions& options, const std::function<void(const Attempt&)>& run);

}  // namespace dovetail::storage
