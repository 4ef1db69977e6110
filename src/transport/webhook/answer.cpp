#include "transport/webhook/answer.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>

#include "core/text.hpp"

namespace dovetail::transport::webhook {
namespace {

constexpr std::size_t most_of_body_shown = 200;
constexpr std::chrono::seconds longest_wait = std::chrono::hours{24};

PublishResult result_of(int status) {
  if (status >= 200 && status < 300) return PublishResult::confirmed;
  return status == status_gone ? PublishResult::refused : PublishResult::rejected;
}

std::string reason_of(const Answer& answer) {
  auto reason = "the endpoint answered " + std::to_string(answer.status);
  if (answer.status >= 300 && answer.status < 400) reason += ": redirects are not followed";
  if (const auto body = excerpt(answer.body); !body.empty()) reason += ": " + body;
  return reason;
}

std::optional<std::int64_t> seconds_until(const std::string& text, WallTime now) {
  std::int64_t seconds = 0;
  const auto* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, seconds);
  const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
  if (is_number && error == std::errc::result_out_of_range) return longest_wait.count();
  if (is_number && error == std::errc{} && stopped == end) return seconds;
  const auto date = ::curl_getdate(text.c_str(), nullptr);
  if (date < 0) return std::nullopt;
  return date - std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
}

}  // namespace

std::string excerpt(std::string_view text) {
  auto shown = core::printable(core::trimmed(text, most_of_body_shown));
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  const auto first = shown.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  shown = shown.substr(first, shown.find_last_not_of(' ') + 1 - first);
  return text.size() > most_of_body_shown ? shown + "…" : shown;
}

std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text, WallTime now) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  const auto last = text.find_last_not_of(" \t");
  const auto seconds = seconds_until(std::string{text.substr(first, last + 1 - first)}, now);
  if (!seconds) return std::nullopt;
  return std::chrono::seconds{std::clamp<std::int64_t>(*seconds, 0, longest_wait.count())};
}

PublishOutcome outcome_of(const Answer& answer, WallTime now) {
  PublishOutcome outcome{.result = result_of(answer.status)};
  if (outcome.result == PublishResult::confirmed) return outcome;
  outcome.reason = reason_of(answer);
  if (outcome.result == PublishResult::rejected)
    outcome.retry_after = parse_retry_after(answer.retry_after, now);
  return outcome;
}

}  // namespace dovetail::transport::webhook
