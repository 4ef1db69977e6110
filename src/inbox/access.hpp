// The inbox for the consumers of brokers.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "dovetail/inbox.hpp"

namespace dovetail {

namespace inbox {

/// A message from a broker.
struct Arrival {
  InboxRequest request{};
  /// Why no handler can get the message: it is stored as a dead letter. Such a message has no
  /// stream.
  std::optional<std::string> problem{};
};

}  // namespace inbox

struct InboxAccess {
  /// Returns why Inbox::enqueue() would refuse the request, or nullopt.
  [[nodiscard]] static std::optional<std::string> refusal(const Inbox& inbox,
                                                          const InboxRequest& request);
  /// Stores all or none, with a connection of the services. Returns the results in the order of the
  /// arrivals.
  static std::vector<InboxEnqueued> receive(Inbox& inbox, std::span<const inbox::Arrival> arrivals,
                                            const std::stop_token& stop);
};

}  // namespace dovetail
