#include "storage/retry.hpp"

#include "core/loop_progress.hpp"
#include "core/random.hpp"

namespace dovetail::storage {

bool may_retry(const Error& error, const WriteOptions& options) {
  if (options.once) return false;
  if (options.gives_up_locks && error.kind() == ErrorKind::lock_timeout) return false;
  return error.is_transient() || (error.is_in_doubt() && options.repeatable);
}

void run_with_retry(Clock& clock, const Logger& log, const RetryPolicy& policy,
                    const WriteOptions& options, const std::function<void(const Attempt&)>& run) {
  const MonoDeadline give_up(clock, policy.patience);
  for (Attempt attempt;; ++attempt.number) {
    try {
      run(attempt);
      return core::LoopProgress::note_current();
    } catch (const Error& error) {
      const auto pause = policy.backoff.delay(attempt.number, core::random_unit());
      if (!may_retry(error, options) || attempt.number >= policy.max_attempts ||
          give_up.remaining() <= pause)
        throw;
      log.write(LogLevel::warn, "storage.retry",
                {{"store", policy.store},
                 {"kind", to_string(error.kind())},
                 {"code", error.native_code()},
                 {"statement", error.statement()},
                 {"tries", attempt.number}});
      attempt.previous_in_doubt = error.is_in_doubt();
      attempt.after_doubt = attempt.after_doubt || attempt.previous_in_doubt;
      if (policy.metrics != nullptr) {
        policy.metrics->count("dovetail_storage_retries_total", 1,
                              {{"store", policy.store}, {"kind", to_string(error.kind())}});
      }
      if (!clock.sleep_for(pause, options.stop)) throw;
    }
  }
}

}  // namespace dovetail::storage
