// Names of the queues, as tables, metrics and wake-ups spell them. PostgreSQL's NOTIFY carries them
// as its payload.
#pragma once

#include <string_view>

namespace dovetail::storage::queue_names {

inline constexpr std::string_view outbox = "outbox";
inline constexpr std::string_view inbox = "inbox";
inline constexpr std::string_view timers = "timers";  ///< Timers wake the scheduler.
inline constexpr std::string_view jobs = "jobs";      ///< Jobs wake the scheduler, too.
/// Not a queue: steps of joins that a transaction could not count; see join/catch_up.hpp.
inline constexpr std::string_view joins = "joins";
/// Not queues: appended events, which wake the stamper, and new positions of the feed.
inline constexpr std::string_view events = "events";
inline constexpr std::string_view event_feed = "event_feed";

}  // namespace dovetail::storage::queue_names
