// The rules that new events must meet.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "dovetail/event.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/subscription.hpp"
#include "event/registrations.hpp"
#include "storage/event_store.hpp"
#include "storage/queue_producer.hpp"

namespace dovetail::event {

/// Throws std::invalid_argument, with the limit in the text.
void require_stream_key(std::string_view stream);
void require_snapshot_name(std::string_view name);

/// Checks every limit. The append points into the arguments.
storage::EventAppend checked(std::string_view stream, ExpectedVersion expected,
                             std::span<const NewEvent> events, const EventOptions& options);

/// Checks that the streams are different, and that no event occurs twice.
std::vector<storage::EventAppend> checked(std::span<const StreamAppend> appends,
                                          const EventOptions& options);

void require_subscription_name(std::string_view name);
/// Checks every limit.
Registration checked(std::string_view name, SubscriptionOptions options,
                     SubscriptionHandler handler);
void require_event_options(const EventOptions& options);
void require_page(const FeedPage& page);

/// The messages of published events. They point into the append, whose last event has `version`.
class PublishedMessages {
 public:
  PublishedMessages(const storage::EventAppend& order, std::int64_t version,
                    const QueueOptions& options);
  [[nodiscard]] std::span<const storage::NewMessage> messages() const { return messages_; }

 private:
  std::vector<storage::NewMessage> messages_;
};

}  // namespace dovetail::event
