#include "storage/failures.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail {
namespace {

constexpr auto failure_names = std::to_array<std::pair<FailureKind, std::string_view>>(
    {{FailureKind::failed, "failed"},
     {FailureKind::lost_lease, "lost_lease"},
     {FailureKind::expired, "expired"}});

}  // namespace

std::string_view to_string(FailureKind kind) {
  const auto found = std::ranges::find(failure_names, kind, [](const auto& e) { return e.first; });
  return found == failure_names.end() ? "unknown" : found->second;
}

std::optional<FailureKind> failure_kind(std::string_view name) {
  const auto found = std::ranges::find(failure_names, name, [](const auto& e) { return e.second; });
  return found == failure_names.end() ? std::nullopt : std::optional{found->first};
}

namespace storage {
namespace {

std::optional<std::string> text_in(const nlohmann::json& entry, const char* name) {
  const auto found = entry.find(name);
  if (found == entry.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// SQLite stores the digits without hyphens.
std::optional<OwnerToken> owner_in(const nlohmann::json& entry) {
  auto text = text_in(entry, "owner");
  if (!text) return std::nullopt;
  if (text->size() == 32) {
    for (const std::size_t place : {8, 13, 18, 23}) text->insert(place, "-");
  }
  return OwnerToken::parse(*text);
}

FailedAttempt failure_of(const nlohmann::json& entry) {
  FailedAttempt failure;
  failure.attempt = entry.value("attempt", 0);
  failure.at = WallTime{std::chrono::microseconds{entry.value("at", std::int64_t{0})}};
  failure.kind = failure_kind(text_in(entry, "kind").value_or("")).value_or(FailureKind::failed);
  failure.error = text_in(entry, "error");
  failure.owner = owner_in(entry);
  return failure;
}

}  // namespace

std::vector<FailedAttempt> failures_of(const std::optional<std::string>& json,
                                       const std::optional<std::string>& last_error) {
  std::vector<FailedAttempt> failures;
  if (!json) return failures;
  const auto entries = nlohmann::json::parse(*json, nullptr, false);
  if (!entries.is_array()) return failures;
  for (const auto& entry : entries) {
    if (entry.is_object()) failures.push_back(failure_of(entry));
  }
  const auto newest = std::find_if(failures.rbegin(), failures.rend(),
                                   [](const auto& each) { return each.error.has_value(); });
  if (newest != failures.rend() && last_error && last_error->starts_with(*newest->error))
    newest->error = last_error;
  return failures;
}

}  // namespace storage
}  // namespace dovetail
