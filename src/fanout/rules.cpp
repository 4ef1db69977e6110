#include "fanout/rules.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/require.hpp"
#include "core/text.hpp"
#include "storage/fanout_store.hpp"

namespace dovetail {
namespace fanout {
namespace {

constexpr std::size_t max_fanout_topic = 100;
constexpr std::size_t max_work_key = 100;
constexpr std::size_t max_shard_key = 256;
constexpr std::size_t max_job_name = 100;
constexpr std::size_t kept_of_long_name = 60;  // bytes; a hash follows
constexpr std::chrono::hours longest_cadence{24 * 3650};
constexpr std::chrono::milliseconds longest_settle = std::chrono::hours{24};
constexpr std::string_view reserved_work_key = "done";

void require_key(const char* what, std::string_view key, std::size_t limit) {
  if (key.empty()) throw std::invalid_argument(std::string{what} + " must not be empty");
  core::require_length(what, key, limit);
}

/// Reads and removes a number of `digits` digits at the front of `text`. Returns nullopt if there
/// are other characters.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  int number = 0;
  const auto field = text.substr(0, digits);
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  if (error != std::errc{} || field.size() < digits || end != field.data() + digits || number < 0)
    return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

/// Reads a point and one to six digits as a fraction of a second. Returns zero without a point.
std::optional<std::chrono::microseconds> take_fraction(std::string_view& text) {
  if (!take(text, '.')) return std::chrono::microseconds{0};
  const auto digits = std::min<std::size_t>(text.find('Z'), text.size());
  if (digits < 1 || digits > 6) return std::nullopt;
  auto number = take_number(text, digits);
  for (auto i = digits; number && i < 6; ++i) *number *= 10;
  return number ? std::optional{std::chrono::microseconds{*number}} : std::nullopt;
}

/// Reads 2026-01-31T09:30:00Z, with or without a fraction of the second.
std::optional<WallTime> parsed_time(std::string_view text) {
  using namespace std::chrono;
  std::array<int, 6> parts{};
  constexpr std::string_view separators = "--T::";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = take_number(text, i == 0 ? 4 : 2);
    if (!number || (i < separators.size() && !take(text, separators[i]))) return std::nullopt;
    parts[i] = *number;
  }
  const auto fraction = take_fraction(text);
  const year_month_day date{year{parts[0]}, month{static_cast<unsigned>(parts[1])},
                            day{static_cast<unsigned>(parts[2])}};
  if (!fraction || text != "Z" || !date.ok() || parts[3] > 23 || parts[4] > 59 || parts[5] > 59)
    return std::nullopt;
  return sys_days{date} + hours{parts[3]} + minutes{parts[4]} + seconds{parts[5]} + *fraction;
}

/// The end of a window, which is never before its start.
WallTime window_end_of(const nlohmann::json& slice, WallTime created_at,
                       const std::optional<WallTime>& window_start) {
  const auto found = slice.find("settle_ms");
  if (found == slice.end()) return created_at;
  const auto settle = found->is_number_integer() ? found->get<std::int64_t>() : -1;
  if (settle < 0 || settle > longest_settle.count())
    throw std::invalid_argument("settle_ms of a slice must be a number from 0 to a day");
  const auto end = created_at - std::chrono::milliseconds{settle};
  return window_start ? std::max(end, *window_start) : end;
}

}  // namespace

void require_topic(std::string_view topic) {
  require_key("topic", topic, max_fanout_topic);
  if (topic.find(':') != std::string_view::npos) {
    throw std::invalid_argument(
        "topic must not contain a colon, which separates it from the work key");
  }
}

void require_work_key(std::string_view work_key) {
  require_key("work_key", work_key, max_work_key);
  if (work_key == reserved_work_key) {
    throw std::invalid_argument(
        "work_key must not be done: that is the topic of messages that end rounds");
  }
}

void require_work_key(const std::optional<std::string>& work_key) {
  if (work_key) require_work_key(std::string_view{*work_key});
}

void require_shard_key(std::string_view shard_key) {
  require_key("shard_key", shard_key, max_shard_key);
}

void require_every(std::chrono::milliseconds every) {
  if (every < std::chrono::milliseconds{1} || every > longest_cadence)
    throw std::out_of_range("every must be 1 ms to 3650 days");
}

void require_jitter(std::chrono::milliseconds jitter) {
  if (jitter < std::chrono::milliseconds{0} || jitter > longest_cadence)
    throw std::out_of_range("jitter must be 0 to 3650 days");
}

void require_age(std::chrono::milliseconds age) {
  if (age < std::chrono::milliseconds{0} || age > longest_cadence)
    throw std::out_of_range("age must be 0 to 3650 days");
}

void require_request(const FanoutRequest& request) {
  require_topic(request.topic);
  require_work_key(request.work_key);
  require_every(request.every);
  require_jitter(request.jitter);
  if (request.settle < std::chrono::milliseconds{0} || request.settle > longest_settle)
    throw std::out_of_range("settle must be 0 to 1 day");
  if (request.lease < std::chrono::seconds{1} || request.lease > std::chrono::hours{24})
    throw std::out_of_range("lease must be 1 s to 24 h");
  if (request.timeout < std::chrono::milliseconds{0} ||
      request.timeout > std::chrono::hours{24 * 365})
    throw std::out_of_range("timeout must be 0 to a year");
  (void)CronExpression::parse(request.cron);
  (void)TimeZone::find(request.time_zone);
}

void require_slice(const FanoutSlice& slice) {
  require_topic(slice.topic);
  require_work_key(std::string_view{slice.work_key});
  require_shard_key(slice.shard_key);
  core::require_time("window_end", slice.window_end);
  if (!slice.window_start) return;
  core::require_time("window_start", *slice.window_start);
  if (slice.window_end < *slice.window_start)
    throw std::invalid_argument("window_end must not be before window_start");
}

std::string name_of(std::string_view topic, const std::optional<std::string>& work_key) {
  return work_key ? fanout_topic(topic, *work_key) : "fanout:" + std::string{topic};
}

std::string job_name(std::string_view topic, const std::optional<std::string>& work_key) {
  auto name = name_of(topic, work_key);
  if (core::utf8_length(name).value_or(0) <= max_job_name) return name;
  const auto hash = storage::slice_spread(topic, {.shard_key = "", .work_key = name});
  std::array<char, 20> digits{};
  std::snprintf(digits.data(), digits.size(), "-%016llx", static_cast<unsigned long long>(hash));
  return std::string{core::trimmed(name, kept_of_long_name)} + digits.data();
}

std::string round_topic(std::string_view topic, const std::optional<std::string>& work_key) {
  return "fanout.round" + name_of(topic, work_key).substr(std::string_view{"fanout"}.size());
}

}  // namespace fanout

std::string fanout_topic(std::string_view topic, std::string_view work_key) {
  return "fanout:" + std::string{topic} + ":" + std::string{work_key};
}

std::string fanout_done_topic(std::string_view topic) {
  return fanout_topic(topic, fanout::reserved_work_key);
}

std::string_view to_string(FanoutStatus status) {
  switch (status) {
    case FanoutStatus::idle:
      return "idle";
    case FanoutStatus::ready:
      return "ready";
    case FanoutStatus::in_progress:
      return "in_progress";
    case FanoutStatus::failed:
      return "failed";
  }
  return "unknown";
}

FanoutSlice FanoutSlice::from(const Message& message) {
  const auto object = nlohmann::json::parse(message.payload, nullptr, false);
  if (!object.is_object())
    throw std::invalid_argument("the payload of a slice must be a JSON object");
  const auto text = [&](const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_string())
      throw std::invalid_argument(std::string{name} + " of a slice must be a text");
    return found->get<std::string>();
  };
  FanoutSlice slice{.topic = text("topic"),
                    .work_key = text("work_key"),
                    .shard_key = text("shard_key"),
                    .window_start = std::nullopt,
                    .window_end = message.created_at};
  if (const auto start = object.find("window_start"); start != object.end() && !start->is_null()) {
    slice.window_start = fanout::parsed_time(text("window_start"));
    if (!slice.window_start)
      throw std::invalid_argument(
          "window_start of a slice must be a time such as 2026-01-31T09:30:00Z");
  }
  slice.window_end = fanout::window_end_of(object, message.created_at, slice.window_start);
  fanout::require_slice(slice);
  return slice;
}

}  // namespace dovetail
