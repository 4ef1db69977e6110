#include "transport/route.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/text.hpp"
#include "dovetail/backoff.hpp"
#include "queue/new_messages.hpp"

namespace dovetail::transport {
namespace {

using Verdict = storage::Settlement::Kind;
using std::chrono::milliseconds;

constexpr std::size_t max_error_bytes = 2048;

void require(bool good, const char* message) {
  if (!good) throw std::out_of_range(message);
}

/// The reason as it is stored.
std::string error_of(const PublishOutcome& outcome) {
  const auto text = core::printable(outcome.reason);
  const std::string error{core::trimmed(text, max_error_bytes)};
  return error.empty() ? "the broker gave no reason" : error;
}

}  // namespace

void require_route(const Route& route) {
  const auto& options = route.options;
  if (!route.publisher) throw std::invalid_argument("publisher must not be null");
  require(options.window >= 1 && options.window <= 10'000, "window must be 1 to 10000");
  require(options.timeout >= milliseconds{100} && options.timeout <= std::chrono::minutes{10},
          "timeout must be 100 ms to 10 min");
  require(options.first_probe >= milliseconds{1}, "first_probe must be at least 1 ms");
  require(options.longest_probe >= options.first_probe &&
              options.longest_probe <= std::chrono::hours{1},
          "longest_probe must be first_probe to 1 h");
  queue::require_max_attempts(route.max_attempts);
}

storage::Settlement settlement_of(const Route& route, const Claim& claim, int attempts,
                                  const PublishOutcome& outcome, double random) {
  switch (outcome.result) {
    case PublishResult::confirmed:
      return {.kind = Verdict::ack, .claim = claim};
    case PublishResult::unavailable:
      return {.kind = Verdict::snooze, .claim = claim};
    case PublishResult::refused:
      return {.kind = Verdict::fail,
              .claim = claim,
              .error = error_of(outcome),
              .on_stream_failure = route.options.on_stream_failure};
    case PublishResult::rejected:
      break;
  }
  const auto delay = outcome.retry_after
                         ? std::clamp(*outcome.retry_after, milliseconds::zero(), longest_delay)
                         : ExponentialBackoff{}.delay(attempts + 1, random);
  return {.kind = Verdict::abandon,
          .claim = claim,
          .error = error_of(outcome),
          .delay = delay,
          .max_attempts = route.max_attempts,
          .on_stream_failure = route.options.on_stream_failure};
}

std::string_view to_string(PublishResult result) {
  switch (result) {
    case PublishResult::confirmed:
      return "confirmed";
    case PublishResult::rejected:
      return "rejected";
    case PublishResult::refused:
      return "refused";
    case PublishResult::unavailable:
      break;
  }
  return "unavailable";
}

}  // namespace dovetail::transport
