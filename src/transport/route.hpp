// A route: the topics that it publishes, where to, and how.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "dovetail/transport.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::transport {

/// As good as forever, without an overflow of the clock.
inline constexpr std::chrono::milliseconds longest_delay = std::chrono::hours{24 * 365};

struct Route {
  std::string pattern{};  ///< A topic or a pattern; see core/topic_pattern.hpp.
  std::shared_ptr<Publisher> publisher{};
  PublishOptions options{};
  int max_attempts = 0;  ///< PublishOptions::max_attempts, or that of the outbox.
};

/// Throws std::invalid_argument or std::out_of_range for values that cannot work.
void require_route(const Route& route);

/// The settlement of a message with this outcome. `random` is from 0 to 1.
[[nodiscard]] storage::Settlement settlement_of(const Route& route, const Claim& claim,
                                                int attempts, const PublishOutcome& outcome,
                                                double random);

/// A label of dovetail_transport_published_total.
[[nodiscard]] std::string_view to_string(PublishResult result);

}  // namespace dovetail::transport
