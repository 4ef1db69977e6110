#include "server/answer_cache.hpp"

#include <algorithm>
#include <charconv>

#include "server/route_table.hpp"

namespace dovetail::server {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t most_entries = 200;
constexpr std::size_t most_bytes = std::size_t{512} * 1024;  // larger answers are not kept
constexpr int longest_age = 60;

/// The same for requests that have the same answer.
std::string key_of(const Request& request) {
  std::string key = request.route->pattern;
  const auto add = [&key](const std::string& name, const std::string& value) {
    key += '\0' + name + '\0' + value;
  };
  for (const auto& [name, value] : request.parameters) add(name, value);
  for (const auto& [name, value] : request.query) add(name, value);
  return key + '\0' + std::string{to_string(request.identity.role)};
}

}  // namespace

std::optional<std::chrono::seconds> allowed_age(const Headers& headers) {
  constexpr std::string_view directive = "max-age=";
  const auto header = find_header(headers, "cache-control").value_or("");
  const auto at = header.find(directive);
  if (at == std::string_view::npos) return std::nullopt;
  const auto digits = header.substr(at + directive.size());
  int age = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), age);
  if (parsed.ec != std::errc{} || age <= 0) return std::nullopt;
  return std::chrono::seconds{std::min(age, longest_age)};
}

Response AnswerCache::answer(const Request& request, const std::function<Response()>& compute) {
  const auto age = allowed_age(request.headers);
  if (!age) return compute();
  const auto entry = entry_of(key_of(request));
  const std::lock_guard lock(entry->mutex);
  if (entry->computed_at && Steady::now() - *entry->computed_at <= *age) return entry->response;
  auto response = compute();
  const bool is_kept =
      response.status == 200 && !response.is_stream && response.body.size() <= most_bytes;
  entry->computed_at = is_kept ? std::optional{Steady::now()} : std::nullopt;
  entry->response = is_kept ? response : Response{};
  return response;
}

std::shared_ptr<AnswerCache::Entry> AnswerCache::entry_of(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  if (entries_.size() >= most_entries) entries_.clear();
  return entries_.emplace(key, std::make_shared<Entry>()).first->second;
}

void AnswerCache::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace dovetail::server
